// Variables of the environment, the launcher, versions, and what is kept of this machine.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "src/base/config.hpp"
#include "src/base/fd.hpp"
#include "src/base/text.hpp"
#include "src/comm/variables.hpp"
#include "src/control/launch/launch.hpp"
#include "src/cost/calibration.hpp"
#include "tools/doctor/checks.hpp"

extern char** environ;

namespace tutti::doctor {
namespace {

Finding values() {
  if (const Status status = checkVariables(); !status.ok()) {
    return {Verdict::Broken, "variables", status.message(), "correct or unset it: no communicator comes up with it"};
  }
  int set = 0;
  for (const Variable& v : variables()) set += std::getenv(v.name) != nullptr ? 1 : 0;
  return {Verdict::Fine, "variables", set == 0 ? "none is set" : cat(set, " set, with values that can be honoured"),
          ""};
}

/// Variables of NCCL that are set: libtutti-nccl reads them, libtutti does not.
void addNccl(Findings* findings) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("NCCL_")) continue;
    const std::string name(text.substr(0, text.find('=')));
    const std::string twin = "TUTTI_" + name.substr(5);
    const bool known = std::ranges::any_of(variables(), [&](const Variable& v) { return twin == v.name; });
    if (!known || std::getenv(twin.c_str()) != nullptr) continue;
    findings->push_back({Verdict::Note, "variables", cat(name, " is read by libtutti-nccl alone"),
                         cat("for programs that call Tutti itself: export ", twin, "=\"$", name, "\"")});
  }
}

/// By which the library ranks of this launcher would meet.
void addLauncher(Findings* findings) {
  if (std::getenv("PMIX_NAMESPACE") == nullptr) return;
  if (launch::pmixLoads()) {
    findings->push_back({Verdict::Fine, "launcher", "PMIx (mpirun or srun)", ""});
  } else {
    findings->push_back({Verdict::Broken, "launcher",
                         "libpmix.so.2, by which ranks of mpirun and srun meet, cannot be loaded",
                         "apt install libpmix2, or put its folder in LD_LIBRARY_PATH"});
  }
}

/// The version of the library that the loader finds; 0 if it finds none.  A child loads it, since this program holds a
/// copy already.
int installedVersion() {
  int ends[2];
  if (::pipe(ends) != 0) return 0;
  const Fd hear(ends[0]);
  Fd say(ends[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    int version = 0;
    void* const library = dlopen("libtutti.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      const auto get = reinterpret_cast<decltype(&tuttiGetVersion)>(dlsym(library, "tuttiGetVersion"));
      if (get != nullptr) (void)get(&version);
    }
    (void)!::write(say.get(), &version, sizeof version);
    ::_exit(0);
  }
  say.reset();
  int version = 0;
  if (::read(hear.get(), &version, sizeof version) != sizeof version) version = 0;
  while (child > 0 && ::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return version;
}

std::string versionText(int code) { return cat(code / 10000, ".", code / 100 % 100, ".", code % 100); }

Finding version() {
  const int found = installedVersion();
  if (found == 0 || found == TUTTI_VERSION_CODE) return {Verdict::Fine, "version", versionText(TUTTI_VERSION_CODE), ""};
  return {Verdict::Note, "version",
          cat("this program is of Tutti ", versionText(TUTTI_VERSION_CODE), ", and programs here load ",
              versionText(found)),
          "look for another libtutti.so.0 in LD_LIBRARY_PATH and `ldconfig -p`"};
}

Finding calibration() {
  const MachineIdentity machine = thisMachine();
  const std::string path = calibrationPath(machine);
  if (path.empty()) {
    return {Verdict::Note, "calibration", "is kept nowhere: each job goes by built-in figures",
            "set HOME or XDG_CACHE_HOME, or TUTTI_CALIBRATION to a file"};
  }
  if (::access(path.c_str(), F_OK) != 0) {
    return {Verdict::Note, "calibration", "this machine is not measured yet; the first job measures it",
            "for the fastest choices, once: tutti-run -n 4 tutti-tune"};
  }
  const Result<Calibration> kept = readCalibration(path, machine);
  if (kept.ok()) return {Verdict::Fine, "calibration", path, ""};
  return {Verdict::Slow, "calibration", kept.status().message(), cat("rm ", path, ": the next job measures again")};
}

}  // namespace

Findings checkSettings() {
  Findings findings{version(), values()};
  for (const std::string& sentence : unknownVariables()) {
    findings.push_back({Verdict::Slow, "variables", sentence, "correct its name: it does nothing"});
  }
  addNccl(&findings);
  addLauncher(&findings);
  findings.push_back(calibration());
  return findings;
}

}  // namespace tutti::doctor
