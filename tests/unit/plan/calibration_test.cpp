#include "src/cost/calibration.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "src/base/clock.hpp"
#include "src/calibrate/disturbance.hpp"
#include "src/calibrate/hand_over.hpp"
#include "src/calibrate/measure.hpp"
#include "src/calibrate/memory.hpp"
#include "src/calibrate/probes.hpp"
#include "tests/support/no_threads.hpp"
#include "tests/support/temp_folder.hpp"
#include "transport/shm/entry.hpp"
#include "transport/table.hpp"
#include "transport/tcp/entry.hpp"

namespace {

using namespace tutti;

const MachineIdentity kMachine = {"Test CPU @ 2.50GHz", 4, "testhost"};

Calibration oddFigures() {
  Calibration c = defaultCalibration(kMachine, linkKinds());
  c.copyGBps = 1.0 / 3;
  c.caches = {0.25, 0.5, 0.5, 0.75, 1};
  c.copyLoops = {true, false, true};
  c.streamFromBytes = 12345678901;
  c.handOverUs = 1.0 / 7;
  c.at(kTcpLocal, Protocol::Slots).cost = {0.1 + 0.2, 1e-3};
  c.at(kShmProcesses, Protocol::Slots).near = {10.0 / 3, 5};
  c.at(kShmProcesses, Protocol::Slots).far = {2.5, 1.25};
  c.at(kShmProcesses, Protocol::Slots).aloneUs = {0.2, 0.3, 0.5, 1.0 / 3, 2, 8};  // of the largest none
  return c;
}

/// A folder; variables set for a test are unset again.
class Scratch : public test::TempFolder {
 public:
  Scratch() { ::setenv("TUTTI_LOG", "error", 1); }
  ~Scratch() {
    for (const char* v : {"TUTTI_CALIBRATION", "XDG_CACHE_HOME", "TUTTI_LOG"}) unsetenv(v);
  }
};

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("a calibration reads back as it was written") {
  for (const Calibration& c :
       {defaultCalibration(kMachine, linkKinds()), oddFigures(), defaultCalibration(thisMachine(), linkKinds())}) {
    const auto back = parseCalibration(toText(c));
    REQUIRE(back.status().message() == "");
    CHECK(*back == c);
  }
}

TEST_CASE("a text that is no calibration is refused with the reason") {
  const std::string good = toText(oddFigures());
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  struct Row {
    std::string text, says;
  };
  for (const Row& row : {
           Row{"", "does not begin"},
           Row{"{}", "does not begin"},
           Row{replaced(cat("calibration ", Calibration::kVersion), "calibration 1"), "does not begin"},
           Row{good.substr(0, good.size() / 2), "cut short"},
           Row{good.substr(0, good.size() - 1), "cut short"},
           Row{replaced("cores 4", "cores 0"), "line 3 is not understood: \"cores 0\""},
           Row{replaced("cores 4", "cores many"), "line 3"},
           Row{replaced("copy-gbps 0.3333", "copy-gbps -0.3333"), "line 6"},
           Row{replaced("copy-gbps 0.3333", "copy-gbps nan"), "line 6"},
           Row{replaced("copy-gbps 0.3333", "copy-gbps 1e999"), "line 6"},
           Row{replaced("copy-gbps 0.3333333333333333 5", "copy-gbps 0.3333333333333333"), "line 6"},
           Row{replaced("caches 0.25 0.5", "caches 0.5 0.25"), "line 8"},
           Row{replaced("caches 0.25", "caches -0.25"), "line 8"},
           Row{replaced("caches 0.25", "caches"), "line 8"},
           Row{replaced("here shm-threads slots 0.1 10", "here shm-threads slots 0.1"), "here shm-threads"},
           Row{replaced("here shm-threads slots", "here shm-threads inline"), "here shm-threads inline"},  // twice
           Row{replaced("here shm-threads slots", "here tcp-local direct"), "here tcp-local"},  // no such link
           Row{replaced("alone shm-processes slots 0.2 ", "alone shm-processes slots 0 "), "alone shm-processes"},
           Row{replaced("alone shm-processes slots 0.2 ", "alone shm-processes slots "), "alone shm-processes"},
           Row{replaced("alone shm-processes slots", "alone tcp-local direct"), "alone tcp-local"},  // no such link
           Row{replaced("fresh shm-threads direct 6", "fresh shm-threads direct 0"), "fresh shm-threads"},
           Row{replaced("fresh shm-threads direct", "fresh tcp-local direct"), "fresh tcp-local"},
           Row{replaced("link shm-threads inline", "link shm_fibres inline"), "shm_fibres"},
           Row{replaced("link shm-threads slots", "link shm-threads inline"), "is not understood"},
           Row{replaced("stream shm-processes slots", "stream tcp-local direct"), "stream tcp-local"},  // no such link
           Row{replaced(" 2.5 1.25\n", " 2.5 0\n"), "stream shm-processes"},
           Row{replaced(" 2.5 1.25\n", " 2.5\n"), "stream shm-processes"},
           Row{replaced("host testhost\n", ""), "does not say which machine"},
           Row{replaced("host testhost", "colour blue"), "line 4"},
           Row{std::string(kMostCalibrationBytes + 1, 'x'), "longer"},
       }) {
    const auto parsed = parseCalibration(row.text);
    CAPTURE(row.text.substr(0, 300), parsed.status().message());
    CHECK(parsed.status().code() == tuttiInvalidArgument);
    CHECK(parsed.status().message().find(row.says) != std::string::npos);
  }
}

TEST_CASE("no damage to a text makes it anything but refused or in range") {
  const std::string good = toText(oddFigures());
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (unsigned i = 0; i <= random() % 3; ++i) text[random() % text.size()] = static_cast<char>(random());
    const auto parsed = parseCalibration(text);
    if (!parsed.ok()) continue;
    CHECK(parsed->copyGBps > 0);
    CHECK(parseCalibration(toText(*parsed)).ok());
  }
}

TEST_CASE("a file of version 11 is read, and printed as it was") {
  const std::string text =
      "tutti-calibration 11\n"
      "cpu Test CPU @ 2.50GHz\ncores 4\nhost testhost\n"
      "measured 2 0.0625 complete\n"
      "copy-gbps 11.25 6.5\nreduce-gbps 19.5 7.5\ncaches 0.25 0.5 0.75 1 1\ncopy-loops 1 0 1\nstream-from-bytes "
      "2097152\nhand-over-us 2.25\n"
      "link shm-threads inline 0.125 1 96\nhere shm-threads inline 0.0625 1\n"
      "link shm-threads slots 0.25 9.5 131072\nalone shm-threads slots 0.25 0.25 0.5 1 2 8 16 0\n"
      "stream shm-threads slots 10 4.5 8.5 3\nhere shm-threads slots 0.125 18\n"
      "link shm-threads direct 0.5 11 1048576\nstream shm-threads direct 20 20 9 5\nfresh shm-threads direct 8.5\n"
      "link shm-processes slots 0.25 7 131072\n"
      "link tcp-local slots 4 4 524288\nstream tcp-local slots 2 1.5 2 1\n"
      "link tcp-remote slots 20 1.25 131072\n"
      "end\n";
  const auto read = parseCalibration(text);
  REQUIRE(read.status().message() == "");
  CHECK(toText(*read) == text);
  CHECK(read->at(kShmThreads, Protocol::Direct).freshGBps == 8.5);
  CHECK(read->at(kTcpRemote, Protocol::Slots).cost.bandwidthGBps == 1.25);
  CHECK(!read->at(kShmProcesses, Protocol::Direct).available);
}

TEST_CASE("figures of links that this build does not have are carried along, and missing ones are added") {
  const Scratch scratch;
  setenv("TUTTI_CALIBRATION", cat(scratch.path(), "/figures").c_str(), 1);
  Calibration other = oddFigures();  // of a build with pigeons and without tcp
  std::erase_if(other.links, [](const Calibration::Link& link) { return link.key.starts_with("tcp"); });
  other.at("pigeon", Protocol::Slots) = {.available = true, .cost = {1e6, 0.5}, .mostBytes = 7};
  other.complete = true;
  const auto read = parseCalibration(toText(other));
  REQUIRE(read.ok());
  CHECK(*read == other);
  CHECK(!other.at(kTcpLocal, Protocol::Slots).available);
  REQUIRE(writeCalibration(calibrationPath(kMachine), other).ok());
  int measured = 0;
  const auto measure = [&](const MachineIdentity&) -> Result<Calibration> {
    ++measured;
    return oddFigures();
  };
  for (int i = 0; i < 2; ++i) {
    const auto loaded = loadOrMeasure(kMachine, linkKinds(), {measure});
    REQUIRE(loaded.ok());
    CHECK(measured == 1);
    CHECK(loaded->at("pigeon", Protocol::Slots) == other.at("pigeon", Protocol::Slots));
    CHECK(loaded->at(kTcpRemote, Protocol::Slots).available);
  }
}

TEST_CASE("the file is found, kept private, and measured anew when it is damaged or of another machine") {
  Scratch scratch;
  setenv("XDG_CACHE_HOME", scratch.path().c_str(), 1);
  const std::string path = calibrationPath(kMachine);
  CHECK(path.starts_with(scratch.path() + "/tutti/calibration-"));
  CHECK(path != calibrationPath({kMachine.cpu, 5, kMachine.host}));
  int measured = 0;
  const auto measure = [&](const MachineIdentity&) -> Result<Calibration> {
    ++measured;
    return oddFigures();
  };
  const auto load = [&] {
    const auto c = loadOrMeasure(kMachine, linkKinds(), {measure});
    REQUIRE(c.ok());
    CHECK(*c == oddFigures());
    return measured;
  };
  CHECK(load() == 1);
  CHECK(load() == 1);  // from the file
  struct stat about {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  CHECK((about.st_mode & 0777) == 0600);
  std::ofstream(path) << "damaged";
  CHECK(load() == 2);
  CHECK(load() == 2);
  Calibration foreign = oddFigures();
  foreign.machine.host = "elsewhere";
  REQUIRE(writeCalibration(path, foreign).ok());
  CHECK(readCalibration(path, kMachine).status().message().find("of another machine (elsewhere") != std::string::npos);
  CHECK(load() == 3);
  setenv("TUTTI_CALIBRATION", "off", 1);
  CHECK(*loadOrMeasure(kMachine, linkKinds(), {measure}) == defaultCalibration(kMachine, linkKinds()));
  CHECK(measured == 3);
  // Where nothing can be kept, the measured figures are used all the same.
  setenv("TUTTI_CALIBRATION", cat(scratch.path(), "/tutti").c_str(), 1);
  CHECK(load() == 4);
}

TEST_CASE("a home that is not there is not made, and nothing is kept then") {
  const Scratch scratch;
  const char* before = getenv("HOME");
  const std::string home = before != nullptr ? before : "";
  const std::string missing = scratch.path() + "/missing";
  struct Row {
    const char* name;
    std::string value;
    std::string kept;  // where; "": nowhere
  };
  unsetenv("XDG_CACHE_HOME");
  for (const Row& row : {Row{"HOME", missing, ""}, Row{"HOME", "", ""}, Row{"HOME", scratch.path(), "/.cache"},
                         Row{"XDG_CACHE_HOME", missing + "/cache", ""}, Row{"XDG_CACHE_HOME", missing + "/cache/", ""},
                         Row{"XDG_CACHE_HOME", scratch.path() + "/cache", "/cache"}}) {
    CAPTURE(row.name, row.value);
    setenv(row.name, row.value.c_str(), 1);
    const std::string path = calibrationPath(kMachine);
    if (row.kept.empty()) CHECK(path.empty());
    if (!row.kept.empty()) CHECK(path.starts_with(scratch.path() + row.kept + "/tutti/calibration-"));
    const auto measured = loadOrMeasure(kMachine, linkKinds(),
                                        {[](const MachineIdentity&) -> Result<Calibration> { return oddFigures(); }});
    CHECK(*measured == oddFigures());
    CHECK(access(missing.c_str(), F_OK) != 0);
    if (!row.kept.empty()) CHECK(readCalibration(path, kMachine).ok());
  }
  if (before == nullptr) unsetenv("HOME");
  if (before != nullptr) setenv("HOME", home.c_str(), 1);
}

TEST_CASE("figures that other programs disturbed are measured again, and the best of all kept") {
  Scratch scratch;
  setenv("TUTTI_CALIBRATION", cat(scratch.path(), "/figures").c_str(), 1);
  int measured = 0;
  double disturbed = 0.5;
  bool complete = true;
  const auto measure = [&](const MachineIdentity&) -> Result<Calibration> {
    Calibration c = oddFigures();
    c.times = 1;
    c.disturbed = disturbed;
    c.complete = complete;
    c.copyGBps = ++measured == 2 ? 20 : 10;
    c.at(kShmThreads, Protocol::Slots).cost = {measured == 1 ? 0.5 : 1, measured == 3 ? 8.0 : 4};
    return c;
  };
  (void)loadOrMeasure(kMachine, linkKinds(), {measure});
  (void)loadOrMeasure(kMachine, linkKinds(), {measure});
  disturbed = 0.01;
  const auto third = loadOrMeasure(kMachine, linkKinds(), {measure}),
             fourth = loadOrMeasure(kMachine, linkKinds(), {measure});
  REQUIRE(fourth.ok());
  CHECK(measured == 3);
  CHECK(*third == *fourth);
  CHECK(fourth->times == 3);
  CHECK(fourth->disturbed == 0.01);
  CHECK(fourth->copyGBps == 20);
  const LinearCost& link = fourth->at(kShmThreads, Protocol::Slots).cost;
  CHECK((link.latencyUs == 0.5 && link.bandwidthGBps == 8));
  // On a machine that is never quiet it ends all the same.
  disturbed = 1;
  setenv("TUTTI_CALIBRATION", cat(scratch.path(), "/others").c_str(), 1);
  for (int i = 0; i < 2 * kMostTimes; ++i) (void)loadOrMeasure(kMachine, linkKinds(), {measure});
  CHECK(measured == 3 + kMostTimes);
  // What was never complete is measured again from time to time: the machine may be idle by then.
  complete = false;
  setenv("TUTTI_CALIBRATION", cat(scratch.path(), "/cut").c_str(), 1);
  for (int i = 0; i < 2 * kMostTimes; ++i) (void)loadOrMeasure(kMachine, linkKinds(), {measure});
  CHECK(measured == 3 + 2 * kMostTimes);
  const timespec longAgo[2] = {{time(nullptr) - 2 * kAgainSeconds, 0}, {time(nullptr) - 2 * kAgainSeconds, 0}};
  REQUIRE(utimensat(AT_FDCWD, calibrationPath(kMachine).c_str(), longAgo, 0) == 0);
  for (int i = 0; i < 3; ++i) (void)loadOrMeasure(kMachine, linkKinds(), {measure});
  CHECK(measured == 4 + 2 * kMostTimes);
  // What is not complete has built-in figures in it, which are no measurement.
  setenv("TUTTI_CALIBRATION", cat(scratch.path(), "/third").c_str(), 1);
  disturbed = 0.01;
  complete = false;
  measured = 1;
  CHECK(loadOrMeasure(kMachine, linkKinds(), {measure})->copyGBps == 20);
  complete = true;
  const auto whole = loadOrMeasure(kMachine, linkKinds(), {measure});
  CHECK((whole->complete && whole->copyGBps == 10 && whole->times == 2));
}

TEST_CASE("while others have the processors, kept figures are used, and no measurement is counted") {
  Scratch scratch;
  setenv("TUTTI_CALIBRATION", cat(scratch.path(), "/figures").c_str(), 1);
  int measured = 0;
  const auto measure = [&](const MachineIdentity&) -> Result<Calibration> {
    Calibration c = oddFigures();
    c.times = 1;
    c.complete = ++measured > 1;
    return c;
  };
  double others = 1;
  const MachineGlance now{[&] { return others; }, {}};
  const auto load = [&] { return loadOrMeasure(kMachine, linkKinds(), {measure}, now); };
  CHECK(!load()->complete);  // better than nothing
  for (int i = 0; i < 2 * kMostTimes; ++i) CHECK(!load()->complete);
  CHECK(measured == 1);
  others = 0;
  CHECK(load()->complete);
  CHECK(measured == 2);
  // The file lacks a transport: its figures are measured once all the same.
  others = 1;
  Calibration lacking = oddFigures();
  std::erase_if(lacking.links, [](const Calibration::Link& link) { return link.key.starts_with("tcp"); });
  REQUIRE(writeCalibration(calibrationPath(kMachine), lacking).ok());
  for (int i = 0; i < 2; ++i)
    CHECK(load()->at(kTcpLocal, Protocol::Slots) == oddFigures().at(kTcpLocal, Protocol::Slots));  // not the built-in
  CHECK(measured == 3);
  // Also where not all could be measured: of the others the complete ones stay.
  REQUIRE(writeCalibration(calibrationPath(kMachine), lacking).ok());
  measured = 0;
  const Calibration cut = *load();
  CHECK((measured == 1 && !cut.complete));  // they are measured again
  CHECK(cut.at(kTcpLocal, Protocol::Slots) == oddFigures().at(kTcpLocal, Protocol::Slots));
}

TEST_CASE("a later start adds once what the first one left to it, and leaves it if it cannot be had") {
  Scratch scratch;
  setenv("TUTTI_CALIBRATION", cat(scratch.path(), "/figures").c_str(), 1);
  int measured = 0, later = 0;
  bool has = true;
  double others = 0;
  Measuring measuring;
  measuring.measure = [&](const MachineIdentity&) -> Result<Calibration> {
    Calibration c = oddFigures();
    c.times = ++measured;
    c.disturbed = 0;
    c.whole = false;
    return c;
  };
  const auto add = [&](const Calibration& first) -> Result<Calibration> {
    Calibration c = first;
    ++later;
    ++c.times;
    c.whole = has;
    c.at(kTcpLocal, Protocol::Slots).near = c.at(kTcpLocal, Protocol::Slots).far = {3, 2};
    return c;
  };
  const auto load = [&] { return *loadOrMeasure(kMachine, linkKinds(), measuring, {[&] { return others; }, {}}); };
  CHECK((!load().whole && !load().whole));  // a process that measured leaves the rest to others
  CHECK(readCalibration(calibrationPath(kMachine), kMachine)->whole == false);
  measuring.later = add;
  others = 1;
  CHECK(!load().whole);
  CHECK(later == 0);
  others = 0;
  for (int i = 0; i < 3; ++i) {
    const Calibration c = load();
    CHECK((c.whole && c.at(kTcpLocal, Protocol::Slots).near == StreamRate{3, 2}));
  }
  CHECK((measured == 1 && later == 1));
  // What never works is not tried for ever.
  REQUIRE(unlink(calibrationPath(kMachine).c_str()) == 0);
  has = false;
  for (int i = 0; i < 2 * kMostTimes; ++i) CHECK(!load().whole);
  CHECK((measured == 2 && later > 1 && later < kMostTimes));
}

TEST_CASE("of two calibrations what one of them has left to a later start comes from the other") {
  Calibration first = oddFigures(), whole = oddFigures();
  first.disturbed = 0;
  whole.disturbed = 0.05;
  first.whole = false;
  first.streamFromBytes = UINT64_MAX;
  first.at(kShmProcesses, Protocol::Slots).near = first.at(kShmProcesses, Protocol::Slots).far = {};
  for (const Calibration& best : {bestOf(first, whole), bestOf(whole, first)}) {
    CHECK(best.whole);
    CHECK(best.streamFromBytes == whole.streamFromBytes);
    CHECK(best.at(kShmProcesses, Protocol::Slots).near == whole.at(kShmProcesses, Protocol::Slots).near);
  }
  CHECK(!bestOf(first, first).whole);
}

TEST_CASE("figures are those of the nearest placement of a virtual machine's cores") {
  Scratch scratch;
  setenv("XDG_CACHE_HOME", scratch.path().c_str(), 1);
  unsetenv("TUTTI_CALIBRATION");
  int measured = 0;
  CoreDistance distance{std::string(kShmThreads.key), 0.6};
  const auto measure = [&](const MachineIdentity&) -> Result<Calibration> {
    ++measured;
    Calibration c = oddFigures();
    c.at(kShmThreads, Protocol::Inline).aloneUs[0] = distance.us;
    return c;
  };
  std::optional<CoreDistance> seen;
  const MachineGlance now{[] { return 0.0; }, [&] { return seen; }};
  const auto distanceLoaded = [&](std::optional<double> us) {
    if (us) distance.us = *us;
    seen = us ? std::optional(distance) : std::nullopt;
    const auto loaded = loadOrMeasure(kMachine, linkKinds(), {measure}, now);
    REQUIRE(loaded.ok());
    return loaded->at(kShmThreads, Protocol::Inline).aloneUs[0];
  };
  CHECK(distanceLoaded(0.6) == 0.6);
  CHECK(distanceLoaded(0.5) == 0.6);           // a mood
  CHECK(distanceLoaded(2) == 0.6);             // further
  CHECK(distanceLoaded(std::nullopt) == 0.6);  // not known
  CHECK(measured == 1);
  // A file that the user names stays as it is.
  setenv("TUTTI_CALIBRATION", calibrationPath(kMachine).c_str(), 1);
  CHECK(distanceLoaded(0.2) == 0.6);
  unsetenv("TUTTI_CALIBRATION");
  CHECK(measured == 1);
  CHECK(distanceLoaded(0.2) == 0.2);  // nearer
  CHECK(measured == 2);
  CHECK(distanceLoaded(0.6) == 0.2);
  CHECK(distanceLoaded(0.12) == 0.2);
  CHECK(measured == 2);
}

TEST_CASE("of two looks at memory the better figures count, and caches go with the faster near copy") {
  Calibration slow, fast;
  slow.copyGBps = 60, slow.copyFarGBps = 50, slow.reduceGBps = 70, slow.reduceFarGBps = 20;
  fast.copyGBps = 110, fast.copyFarGBps = 40, fast.reduceGBps = 60, fast.reduceFarGBps = 30;
  slow.caches.fill(0);
  fast.caches.fill(0.5);
  for (const bool slowFirst : {true, false}) {
    Calibration both = slowFirst ? slow : fast;
    takeBetterMemory(slowFirst ? fast : slow, &both);
    CHECK(both.copyGBps == 110);
    CHECK(both.copyFarGBps == 50);
    CHECK(both.reduceGBps == 70);
    CHECK(both.reduceFarGBps == 30);
    CHECK(both.caches == fast.caches);
  }
}

TEST_CASE("a glance at the machine sees others, and how far two cores are") {
  const double others = othersShareNow();
  CHECK((others >= 0 && others <= 1));
  cpu_set_t before, after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  std::optional<CoreDistance> distance;
  for (int again = 0; again < 20 && !distance; ++again) distance = measureCoreDistance(transports());
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));           // it is bound to one core only meanwhile
  if (!distance && others > kTooBusy) return;  // nothing is measured there
  REQUIRE(distance);
  CHECK(distance->us > 0);
  const LinkProbes probes = machineProbes(transports());
  CHECK(std::ranges::any_of(probes.links, [&](const LinkProbes::Link& link) { return link.key == distance->key; }));
}

TEST_CASE("a core's hand-over between two threads is measured; without a second thread it is not") {
  cpu_set_t before, after;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  double us = 0;
  for (int again = 0; again < 20 && us == 0; ++again) us = measureHandOver();  // others may have the core for a while
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&before, &after));
  CHECK(us > 0.01);  // less than a way into the kernel takes: they were on two cores
  CHECK(us < 10'000);
  const test::NoThreads none;
  CHECK(measureHandOver() == 0);
}

TEST_CASE("the shorter of two measured hand-overs counts") {
  Calibration a = oddFigures(), b = oddFigures();
  for (const auto& [ours, theirs, best] :
       {std::array{2.5, 2.25, 2.25}, {2.0, 3.0, 2.0}, {0.0, 2.5, 2.5}, {2.5, 0.0, 2.5}}) {
    a.handOverUs = ours;
    b.handOverUs = theirs;
    CHECK(bestOf(a, b).handOverUs == best);
  }
}

TEST_CASE("links that there is no thread to measure with keep their figures, and are measured another time") {
  const LinkProbes probes = machineProbes(transports());
  REQUIRE_FALSE(probes.links.empty());
  const LinkKinds kinds = linkKinds(transports());
  const test::NoThreads none;
  CHECK_FALSE(measureCoreDistance(transports()));
  const Calibration measured = measureCalibration(thisMachine(), kinds, probes, 20'000, /*tooBusy=*/1);
  CHECK(*probes.lacksThreads);
  CHECK_FALSE(measured.complete);
  const std::string_view key = probes.links.front().key;
  const Calibration builtIn = defaultCalibration(thisMachine(), kinds);
  for (const Protocol protocol : kAllProtocols)
    CHECK((*measured.find(key))[protocol].available == (*builtIn.find(key))[protocol].available);
}

TEST_CASE("other programs' part of the processors is seen") {
  const Disturbance disturbance;
  const int64_t end = nowNs() + 50 * kMs;
  while (nowNs() < end) {  // our own work does not count
  }
  CHECK((disturbance.share() >= 0 && disturbance.share() <= 1));
}

TEST_CASE("ranks that write and read at once see whole files and leave no others") {
  Scratch scratch;
  const std::string path = scratch.path() + "/deep/er/file";
  REQUIRE(writeCalibration(path, oddFigures()).ok());
  std::vector<std::string> complaints(4);
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      for (int i = 0; i < 50; ++i) {
        const auto read = readCalibration(path, kMachine);
        if (!read.ok()) complaints[rank] = read.status().message();
        if (const Status wrote = writeCalibration(path, oddFigures()); !wrote.ok()) complaints[rank] = wrote.message();
      }
    });
  }
  for (auto& rank : ranks) rank.join();
  for (const std::string& complaint : complaints) CHECK(complaint == "");
  CHECK(contents(path) == toText(oddFigures()));
  CHECK(std::system(cat("test $(ls ", scratch.path(), "/deep/er | wc -l) = 1").c_str()) == 0);
}

TEST_CASE("a fit finds latency and bandwidth, also under noise") {
  struct Row {
    double latencyUs, gbps, noise;
  };
  for (const Row& row : {Row{0.2, 10, 0}, Row{20, 1.2, 0.1}, Row{3.5, 4, 0.2}}) {
    std::mt19937 random(3);
    std::vector<CostSample> samples;
    for (const double bytes : {8.0, 64.0, 1024.0, 16384.0, 131072.0, 1048576.0}) {
      const double noise = 1 + row.noise * (static_cast<double>(random() % 2001) / 1000 - 1);
      samples.push_back({bytes, (row.latencyUs + bytes / (row.gbps * 1e3)) * noise});
    }
    const LinearCost cost = fitLinear(samples);
    CAPTURE(cost.latencyUs, cost.bandwidthGBps);
    CHECK(cost.latencyUs == Approx(row.latencyUs).epsilon(row.noise + 0.02));
    CHECK(cost.bandwidthGBps == Approx(row.gbps).epsilon(row.noise + 0.02));
  }
  const CostSample tiny = {8, 2.5}, large = {1 << 20, 100};
  CHECK(fitLinear({&tiny, 1}).latencyUs == Approx(2.5));
  CHECK(fitLinear({&large, 1})(1 << 20) == Approx(100).epsilon(0.01));
}

TEST_CASE("messages alone cost what they did alone, streams what they did in streams") {
  LinkCost link = {.available = true, .cost = {1, 10}, .mostBytes = 65536};
  CHECK(link.costIn(1e9, 1, true).bandwidthGBps == 10);
  const Calibration c = defaultCalibration(kMachine, linkKinds());  // its caches slow down by the logarithm
  link.near = {8, 4};
  link.far = {2, 1};
  struct Row {
    size_t bytes, footprint;
    double oneWay, bothWays;
  };
  for (const Row& row : {Row{0, 0, 10, 5}, Row{8 * 1024, 1 << 16, 10, 5}, Row{64 * 1024, 1 << 18, 10, 4},
                         Row{kNearBytes, kNearFootprint, 8, 4}, Row{kNearBytes * 2, kNearFootprint, 8, 4},
                         Row{kNearBytes, kFarFootprint, 2, 1}, Row{64 * 1024, kFarFootprint, 2.5, 1},
                         Row{size_t{1} << 40, size_t{1} << 42, 2, 1}, Row{kNearBytes * 4, kNearFootprint * 4, 4, 2}}) {
    CAPTURE(row.bytes, row.footprint);
    const auto bytes = static_cast<double>(row.bytes), far = c.farness(static_cast<double>(row.footprint));
    CHECK(link.costIn(bytes, far, false).bandwidthGBps == Approx(row.oneWay));
    CHECK(link.costIn(bytes, far, true).bandwidthGBps == Approx(row.bothWays));
    CHECK(link.costIn(bytes, far, true).latencyUs == 1);
  }
  // Both ways as fast as one: the more there is the more overlaps.
  link.near = link.far = {20, 20};
  CHECK(link.costIn(64 * 1024, 0, true).bandwidthGBps == Approx(10));
  CHECK(link.costIn(kNearBytes, 0, true).bandwidthGBps == Approx(20));
}

TEST_CASE("memory is as far as copies of as much of it were slowed down") {
  Calibration c = oddFigures();  // caches 0.25 0.5 0.5 0.75 1
  c.copyGBps = 16;
  c.copyFarGBps = 4;
  struct Row {
    double footprint, far, gbps;
  };
  constexpr double kMiB = 1 << 20;
  for (const Row& row :
       {Row{0, 0, 16}, Row{2 * kMiB, 0, 16}, Row{3 * kMiB, 0.25, 11.314}, Row{4 * kMiB, 0.5, 8}, Row{5 * kMiB, 0.5, 8},
        Row{8 * kMiB, 0.75, 5.657}, Row{std::sqrt(128) * kMiB, 0.875, 4.757}, Row{16 * kMiB, 1, 4}, Row{1e12, 1, 4}}) {
    CAPTURE(row.footprint);
    CHECK(c.farness(row.footprint) == Approx(row.far));
    CHECK(c.copyGBpsIn(row.footprint) == Approx(row.gbps).epsilon(1e-3));
  }
}

TEST_CASE("measuring asks the probes and leaves the rest as built in") {
  LinkProbes probes;
  probes.at(kShmThreads, Protocol::Slots) = {
      .probe = [](size_t bytes) { return 0.5 + static_cast<double>(bytes) / 5e3; }, .mostBytes = 65536};
  probes.at(kShmThreads, Protocol::Slots).stream = [](size_t bytes, bool bothWays) {
    return (bytes == kNearBytes ? 8.0 : bytes == farBytes(bothWays) ? 4.0 : -1) / (bothWays ? 2 : 1);
  };
  probes.at(kShmThreads, Protocol::Slots).here = [](size_t bytes) { return 0.1 + static_cast<double>(bytes) / 20e3; };
  probes.at(kShmThreads, Protocol::Slots).alone = [](size_t bytes) {
    return bytes == 16384 ? -1.0 : static_cast<double>(bytes);  // those after it are not of use
  };
  probes.at(kShmThreads, Protocol::Direct) = {.probe = [](size_t) { return 1.0; },
                                              .stream = [](size_t, bool) { return 9.0; },
                                              .fresh = [] { return 3.0; },
                                              .mostBytes = 8};
  probes.at(kShmProcesses, Protocol::Slots) = probes.at(kShmThreads, Protocol::Slots);
  probes.at(kShmProcesses, Protocol::Slots).stream = [](size_t, bool bothWays) { return bothWays ? -1.0 : 8.0; };
  probes.at(kTcpLocal, Protocol::Slots) = {.probe = [](size_t) { return -1.0; }, .mostBytes = 65536};
  probes.at(kTcpLocal, Protocol::Slots).stream = [](size_t, bool bothWays) { return bothWays ? 2.0 : 3.0; };
  constexpr int kMs = 600'000;  // however slow this machine is
  const Calibration c = measureLater(measureCalibration(kMachine, linkKinds(), probes, kMs, /*tooBusy=*/1), probes, kMs,
                                     /*tooBusy=*/1);
  const Calibration builtIn = defaultCalibration(kMachine, linkKinds());
  CHECK(c.at(kShmThreads, Protocol::Slots).cost.latencyUs == Approx(0.5).epsilon(0.02));
  CHECK(c.at(kShmThreads, Protocol::Slots).cost.bandwidthGBps == Approx(5).epsilon(0.02));
  CHECK(c.at(kShmThreads, Protocol::Slots).mostBytes == 65536);
  CHECK(c.at(kTcpLocal, Protocol::Slots).cost.latencyUs == builtIn.at(kTcpLocal, Protocol::Slots).cost.latencyUs);
  CHECK(c.at(kTcpLocal, Protocol::Slots).near == StreamRate{3, 2});
  CHECK(c.at(kShmThreads, Protocol::Slots).near == StreamRate{8, 4});
  CHECK(c.at(kShmThreads, Protocol::Slots).far == StreamRate{4, 2});
  const LinkCost inProportionToHere =
      inProportion(builtIn.at(kShmProcesses, Protocol::Slots), c.at(kShmProcesses, Protocol::Slots).here);
  CHECK(c.at(kShmProcesses, Protocol::Slots).near == inProportionToHere.near);  // all of them or none
  CHECK(c.at(kShmThreads, Protocol::Slots).here.latencyUs == Approx(0.1).epsilon(0.02));
  CHECK(c.at(kShmThreads, Protocol::Slots).here.bandwidthGBps == Approx(20).epsilon(0.02));
  CHECK(c.at(kShmThreads, Protocol::Direct).freshGBps == 3);
  const LinkCost& alone = c.at(kShmThreads, Protocol::Slots);
  CHECK(alone.aloneUs == std::array<double, kMessageSizes.size()>{8, 64, 1024, 4096});
  CHECK(alone.aloneUsOf(0) == 8.0);
  CHECK(*alone.aloneUsOf(2048) == Approx(2048));
  CHECK_FALSE(alone.aloneUsOf(4097));
  CHECK(c.copyGBps > 0.05);
  CHECK(c.copyFarGBps > 0.05);
  CHECK(std::ranges::is_sorted(c.caches));
  CHECK((c.caches.front() >= 0 && c.caches.back() <= 1));
  CHECK(c.reduceGBps > 0.05);
  CHECK(c.reduceFarGBps > 0.05);
  CHECK(parseCalibration(toText(c)).ok());
}

TEST_CASE("a first start measures the streams of one kind, and a later one those of the others") {
  LinkProbes probes;
  for (const LinkProfile& kind : {kShmProcesses, kTcpLocal}) {
    LinkProbes::Entry& entry = probes.at(kind, Protocol::Slots);
    entry = {.probe = [](size_t) { return 1.0; }, .mostBytes = 65536};
    entry.stream = [](size_t, bool bothWays) { return bothWays ? 2.0 : 3.0; };
  }
  const Calibration first = measureCalibration(kMachine, linkKinds(), probes, /*budgetMs=*/600'000, /*tooBusy=*/1);
  CHECK((first.complete && !first.whole && first.times == 1));
  CHECK(first.at(kShmProcesses, Protocol::Slots).near == StreamRate{3, 2});
  CHECK(first.at(kTcpLocal, Protocol::Slots).cost.latencyUs == Approx(1).epsilon(0.02));
  CHECK(!(first.at(kTcpLocal, Protocol::Slots).near == StreamRate{3, 2}));
  CHECK(*parseCalibration(toText(first)) == first);
  const Calibration busy = measureLater(first, probes, /*budgetMs=*/600'000, /*tooBusy=*/-1);
  CHECK((!busy.whole && busy.times == 2 && busy.links == first.links));
  const Calibration whole = measureLater(first, probes, /*budgetMs=*/600'000, /*tooBusy=*/1);
  CHECK((whole.complete && whole.whole && whole.times == 2));
  CHECK(whole.at(kTcpLocal, Protocol::Slots).near == StreamRate{3, 2});
  CHECK(whole.copyGBps >= first.copyGBps);
  CHECK(*parseCalibration(toText(whole)) == whole);
}

TEST_CASE("what cannot be measured between two cores is in proportion to what one core takes of both ends") {
  const Calibration builtIn = defaultCalibration(kMachine, linkKinds());
  const LinkCost slots = inProportion(builtIn.at(kShmProcesses, Protocol::Slots), {0.05, 40});
  CHECK((slots.here.latencyUs == 0.05 && slots.here.bandwidthGBps == 40));
  CHECK(slots.cost.latencyUs == Approx(0.25 / 2));
  CHECK(slots.cost.bandwidthGBps == Approx(7 * 4));
  CHECK((slots.near == StreamRate{40, 20} && slots.far == StreamRate{32, 16}));
  // Nothing is kept of what one core takes of direct messages: the model has no use for it.
  const LinkCost direct = inProportion(builtIn.at(kShmProcesses, Protocol::Direct), {1.6, 22});
  CHECK(direct.here.bandwidthGBps == 0);
  CHECK(direct.cost.latencyUs == Approx(1.6));
  CHECK((direct.near == StreamRate{24, 24} && direct.freshGBps == 12));
  CHECK(inProportion(slots, {1e-9, 1e9}).near.oneWay <= 1e4);  // whatever a clock said
}

TEST_CASE("where others have the processors, what one core takes is measured alone") {
  LinkProbes probes;
  int between = 0;
  LinkProbes::Entry& slots = probes.at(kShmProcesses, Protocol::Slots);
  slots = {.probe = [&](size_t) { return ++between; }, .mostBytes = 65536};
  slots.stream = [&](size_t, bool) { return ++between; };
  slots.here = [](size_t bytes) { return 0.05 + static_cast<double>(bytes) / 40e3; };
  const Calibration c = measureCalibration(kMachine, linkKinds(), probes, /*budgetMs=*/600'000, /*tooBusy=*/-1);
  CHECK(between == 0);
  CHECK_FALSE(c.complete);
  CHECK(c.at(kShmProcesses, Protocol::Slots).near.oneWay == Approx(40).epsilon(0.02));
  CHECK(parseCalibration(toText(c)).ok());
}

TEST_CASE("stores pass the cache from the size with which all sizes together win most") {
  const auto from = [](std::vector<double> ratios) { return streamedFrom(ratios); };
  constexpr uint64_t kMiB = 1 << 20;
  CHECK(from({0.7, 0.8, 0.9, 1.2, 1.4}) == 32 * kMiB);
  CHECK(from({1.1, 0.7, 0.8, 1.3}) == 32 * kMiB);  // the largest was disturbed
  CHECK(from({0.7, 0.8, 0.9, 1.2, 0.9, 1.4}) == 32 * kMiB);
  CHECK(from({0.7, 0.8, 0.95, 0.9, 0.85, 0.8, 0.9}) == 2 * kMiB);
  CHECK(from({1.0, 0.97, 1.1, 1.3}) == UINT64_MAX);
  CHECK(from({0.8}) == 128 * kMiB);  // there was no time for more
  CHECK(from({}) == UINT64_MAX);
}

TEST_CASE("copies go by the loop for the amounts of memory at which two cores are clearly faster with it") {
  const CopyLoops before = copyLoops();
  const double faster = GENERATE(0.5, 0.99, 2.0);
  LinkProbes probes;
  LinkProbes::Entry& slots = probes.at(kShmProcesses, Protocol::Slots);
  const auto time = [&] { return copiesAhead(kCopyFootprints[0]) ? faster : 1.0; };
  std::vector<CopyLoops> of8Bytes;
  slots = {.probe =
               [&](size_t bytes) {
                 if (bytes == 8) of8Bytes.push_back(copyLoops());
                 return time();
               },
           .mostBytes = 65536};
  slots.stream = [&](size_t bytes, bool) { return bytes > kCopyFootprints[1] ? 1.0 : 1 / time(); };
  const bool pays = faster < 0.9;
  const CopyLoops expected = {pays, pays, false};
  const Calibration c = measureCalibration(kMachine, linkKinds(), probes, /*budgetMs=*/600'000, /*tooBusy=*/1);
  CHECK(c.copyLoops == expected);
  CHECK(copyLoops() == expected);
  CHECK(of8Bytes == std::vector{expected});  // all figures are of copies as they will be
  const Calibration busy = measureCalibration(kMachine, linkKinds(), probes, /*budgetMs=*/600'000, /*tooBusy=*/-1);
  CHECK(busy.copyLoops == CopyLoops{});
  CHECK(copyLoops() == CopyLoops{});
  setCopyLoops(before);
}

TEST_CASE("kinds whose channels are the same memory have the same figures of them") {
  LinkProbes probes;
  probes.at(kShmProcesses, Protocol::Slots) = {
      .probe = [](size_t bytes) { return 0.5 + static_cast<double>(bytes) / 5e3; }, .mostBytes = 65536};
  probes.at(kShmProcesses, Protocol::Slots).stream = [](size_t, bool bothWays) { return bothWays ? 6.0 : 7.0; };
  probes.at(kShmThreads, Protocol::Direct) = {.probe = [](size_t) { return 1.0; }, .mostBytes = 8};
  probes.links.back().sharesChannels = kShmProcesses.key;
  const Calibration c = measureCalibration(kMachine, linkKinds(), probes, /*budgetMs=*/600'000, /*tooBusy=*/1);
  CHECK(c.at(kShmThreads, Protocol::Slots) == c.at(kShmProcesses, Protocol::Slots));
  CHECK(c.at(kShmThreads, Protocol::Direct).cost.latencyUs == Approx(1).epsilon(0.02));
}

TEST_CASE("on a machine that is too slow measuring ends early, and says that it is not complete") {
  LinkProbes probes;
  int calls = 0;
  const auto slow = [&calls] {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  for (const Protocol protocol : {Protocol::Slots, Protocol::Direct}) {
    probes.at(kShmThreads, protocol) = {.probe =
                                            [slow](size_t) {
                                              slow();
                                              return 1.0;
                                            },
                                        .stream =
                                            [slow](size_t, bool) {
                                              slow();
                                              return 1.0;
                                            },
                                        .mostBytes = 65536};
  }
  probes.at(kShmProcesses, Protocol::Slots) = probes.at(kShmThreads, Protocol::Slots);
  const Calibration c = measureCalibration(kMachine, linkKinds(), probes, /*budgetMs=*/1, /*tooBusy=*/1);
  CHECK_FALSE(c.complete);
  CHECK(calls <= 1);  // of 16 and more: 8 ms are over with the first, if memory has left any
  CHECK(parseCalibration(toText(c)).ok());
}
