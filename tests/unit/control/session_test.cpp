#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <atomic>
#include <mutex>
#include <set>

#include "tests/support/thorough.hpp"
#include "tests/unit/control/ranks.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

using ControlResult = Result<std::unique_ptr<Control>>;

Deadline soon() { return Deadline::inMs(20'000); }

size_t countEntries(const char* folder) {
  size_t n = 0;
  DIR* dir = opendir(folder);
  while (readdir(dir) != nullptr) ++n;
  closedir(dir);
  return n;
}

std::string readAll(int fd, size_t bytes) {
  std::string text(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    pollfd p{fd, POLLIN, 0};
    if (::poll(&p, 1, 10'000) != 1) return "nothing came";
    const ssize_t n = ::recv(fd, text.data() + done, bytes - done, 0);
    if (n <= 0) return "the stream ended";
    done += static_cast<size_t>(n);
  }
  return text;
}

}  // namespace

TEST_CASE("ranks join, exchange and part", "[thorough]") {
  const int n = GENERATE(1, 2, 3, 8, kThorough ? 64 : 16);
  CAPTURE(n);
  const Rendezvous rendezvous;
  CHECK(onRanks(n, [&](int rank) -> std::string {
          ControlResult joined = rendezvous.join(rank, n);
          if (!joined.ok()) return joined.status().message();
          Control& control = **joined;
          for (int other = 0; other < n; ++other) {
            if (control.infos().at(static_cast<size_t>(other)) != cat("rank ", other)) return "wrong infos";
          }
          for (int round = 0; round < 3; ++round) {
            const Result<std::vector<std::string>> all = control.allGather(cat(round, "/", rank), soon());
            if (!all.ok()) return all.status().message();
            for (int other = 0; other < n; ++other) {
              if (all->at(static_cast<size_t>(other)) != cat(round, "/", other)) return "wrong blobs";
            }
          }
          return control.barrier(soon()).message();
        }) == "");
  if (n > 1) CHECK(rendezvous.session->waitForRendezvous(rendezvous.commId, soon()));
}

TEST_CASE("256 ranks join", "[thorough]") {
  const int n = kThorough ? 256 : 32;
  const Rendezvous rendezvous;
  CHECK(onRanks(n, [&](int rank) -> std::string {
          ControlResult joined = rendezvous.join(rank, n, 60'000);
          return joined.ok() ? (*joined)->barrier(Deadline::inMs(60'000)).message() : joined.status().message();
        }) == "");
}

TEST_CASE("a rendezvous made by openRendezvousPlace serves its ranks") {
  const Result<tuttiUniqueId> id = openRendezvousPlace();
  REQUIRE(id.ok());
  const MeetingPlace place = *decodeUniqueId(*id);
  CHECK(onRanks(3, [&](int rank) -> std::string {
          JoinRequest request;
          request.commId = place.commId;
          request.secret = place.secret;
          request.rank = rank;
          request.nRanks = 3;
          request.rendezvous = place.controlAddress;
          Result<std::shared_ptr<Session>> session = Session::create();  // on the interfaces that there are
          if (!session.ok()) return session.status().message();
          ControlResult joined = (*session)->join(request, soon(), nullptr, [](const Failure&) {});
          return joined.ok() ? (*joined)->barrier(soon()).message() : joined.status().message();
        }) == "");
}

TEST_CASE("a child communicator joins over its members' control addresses on the same Sessions") {
  const Rendezvous rendezvous;
  CHECK(onRanks(4, [&](int rank) -> std::string {
          ControlResult joined = rendezvous.join(rank, 4);
          if (!joined.ok()) return joined.status().message();
          Control& parent = **joined;
          JoinRequest request;  // the even ranks, and the odd ones
          request.secret = deriveSecret(parent.secret(), cat("child ", rank % 2));
          request.commId = deriveCommId(parent.secret(), cat("child ", rank % 2));
          request.rank = rank / 2;
          request.nRanks = 2;
          request.members = {parent.controlAddresses()[static_cast<size_t>(rank % 2)],
                             parent.controlAddresses()[static_cast<size_t>(rank % 2 + 2)]};
          request.info = cat(rank);
          ControlResult child = parent.session()->join(request, soon(), nullptr, [](const Failure&) {});
          if (!child.ok()) return child.status().message();
          joined = ControlResult(Status(tuttiInternalError, "the parent leaves first"));
          const Result<std::vector<std::string>> all = (*child)->allGather(cat(rank), soon());
          if (!all.ok()) return all.status().message();
          return all->at(1) == cat(rank % 2 + 2) && (*child)->infos() == *all ? "" : "wrong blobs";
        }) == "");
}

TEST_CASE("who does not know the secret stays outside") {
  const Rendezvous rendezvous;
  CHECK(onRanks(2, [&](int rank) -> std::string {
          JoinRequest request = rendezvous.request(rank, 2);
          if (rank == 1) request.secret = {3};
          ControlResult joined = loopbackSession()->join(request, Deadline::inMs(300), nullptr, [](const Failure&) {});
          if (joined.ok()) return "it got in";
          return joined.status().code() == tuttiTimeout ? "" : joined.status().message();
        }) == "");
}

TEST_CASE("ranks that do not fit together are told so") {
  const Rendezvous twice;
  const std::string duplicate = onRanks(2, [&](int) { return twice.join(0, 2, 2000).status().message(); });
  CHECK(duplicate.find("rank 0") != std::string::npos);
  const Rendezvous sizes;
  const std::string different =
      onRanks(2, [&](int rank) { return sizes.join(rank, 2 + rank, 2000).status().message(); });
  CAPTURE(different);
  CHECK(different.find("give all ranks the same nRanks") != std::string::npos);
  CHECK(sizes.join(5, 3).status().message() == "rank 5 is outside 0..2");
  CHECK(sizes.join(0, 0).status().code() == tuttiInvalidArgument);
}

TEST_CASE("a rank that does not come is named") {
  const Rendezvous rendezvous;
  std::mutex mutex;
  std::set<std::string> complaints;
  onRanks(3, [&](int rank) -> std::string {
    const Status status = rendezvous.join(rank, 4, 400).status();
    const std::lock_guard lock(mutex);
    complaints.insert(status.code() == tuttiTimeout ? status.message() : cat("not a timeout: ", status.message()));
    return "";
  });
  CAPTURE(*complaints.begin());
  CHECK(complaints.size() == 1);
  CHECK(complaints.begin()->find("3") != std::string::npos);
}

TEST_CASE("the abort word ends a join") {
  const Rendezvous rendezvous;
  std::atomic<uint32_t> abort{0};
  std::thread aborter([&] {
    ::usleep(20'000);
    abort = 1;
  });
  const Status status = rendezvous.join(0, 2, 20'000, &abort).status();
  aborter.join();
  CHECK(status.message() == "rank 0 of 2 was told to abort while it waited");
}

TEST_CASE("streams open both ways and keep the bytes behind the hand-over") {
  const char* address = GENERATE("127.0.0.1:1", "[::1]:1");
  CAPTURE(address);
  const Rendezvous rendezvous;
  CHECK(onRanks(3, [&](int rank) -> std::string {
          ControlResult joined =
              loopbackSession(address)->join(rendezvous.request(rank, 3), soon(), nullptr, [](const Failure&) {});
          if (!joined.ok()) return joined.status().message();
          for (int index = 0; index < 2; ++index) {
            for (int peer = 0; peer < 3; ++peer) {
              if (peer == rank) continue;
              Result<Fd> stream = awaitValue(*(*joined)->open(peer, index), soon(), "it");
              if (!stream.ok()) return stream.status().message();
              // At once, so that some of it arrives before the other end has taken the stream.
              const std::string text = cat(rank, ">", peer, "#", index), wanted = cat(peer, ">", rank, "#", index);
              if (::send(stream->get(), text.data(), text.size(), MSG_NOSIGNAL) < 0) return "cannot send";
              if (const std::string got = readAll(stream->get(), wanted.size()); got != wanted) return got;
            }
          }
          const Status self = awaitValue(*(*joined)->open(rank, 0), soon(), "it").status();
          if (self.code() != tuttiInvalidArgument) return "a stream to itself";
          return (*joined)->barrier(soon()).message();
        }) == "");
}

TEST_CASE("any number of streams and descriptors come up side by side, and each arrival is told") {
  const Rendezvous rendezvous;
  CHECK(onRanks(2, [&](int rank) -> std::string {
          ControlResult joined = rendezvous.join(rank, 2);
          if (!joined.ok()) return joined.status().message();
          Control& control = **joined;
          std::atomic<int> told{0};
          control.setOnArrival([&] { ++told; });
          const Fd memory(memfd_create("test", MFD_CLOEXEC));
          std::vector<PendingFd> all;
          for (int index = 0; index < 5; ++index) all.push_back(control.open(1 - rank, rank == 0 ? index : 4 - index));
          for (int key = 0; key < 5; ++key) all.push_back(control.fetch(1 - rank, cat("key ", key)));
          ::usleep(20'000);
          for (int key = 4; key >= 0; --key) {
            if (const Status s = control.serve(cat("key ", key), memory.get()); !s.ok()) return s.message();
          }
          const Deadline deadline = soon();
          for (size_t left = all.size(); left > 0;) {
            if (deadline.passed()) return cat(left, " have not come");
            const int before = told;
            for (PendingFd& one : all) {
              if (one == nullptr) continue;
              const Result<Fd> fd = one->poll();
              if (!fd.ok()) return fd.status().message();
              if (!fd->valid()) continue;
              one.reset();
              --left;
            }
            // Nothing polls before it is told, but for what was told before this thread had looked.
            for (int i = 0; left > 0 && told == before && i < 3; ++i) ::usleep(1'000);
          }
          if (told == 0) return "nobody was told";
          control.setOnArrival(nullptr);
          return control.barrier(soon()).message();
        }) == "");
}

TEST_CASE("a stream opens though the other rank is busy elsewhere") {
  const Rendezvous rendezvous;
  CHECK(onRanks(2, [&](int rank) -> std::string {
          ControlResult joined = rendezvous.join(rank, 2);
          if (!joined.ok()) return joined.status().message();
          if (rank == 0) {  // opens its end only after rank 1 has written
            if (Status met = (*joined)->barrier(soon()); !met.ok()) return met.message();
          }
          Result<Fd> stream = awaitValue(*(*joined)->open(1 - rank, 0), soon(), "it");
          if (!stream.ok()) return stream.status().message();
          if (rank == 0) return readAll(stream->get(), 5) == "hello" ? "" : "other bytes";
          if (::send(stream->get(), "hello", 5, MSG_NOSIGNAL) != 5) return "cannot send";
          return (*joined)->barrier(soon()).message();
        }) == "");
}

TEST_CASE("a wait that takes too long names the rank that is to blame") {
  const Rendezvous rendezvous;
  std::atomic<int> given{0};
  CHECK(onRanks(3, [&](int rank) -> std::string {
          ControlResult joined = rendezvous.join(rank, 3);
          if (!joined.ok()) return joined.status().message();
          if (rank == 1) {  // answers, but never comes
            while (given < 2) ::usleep(1'000);
            return "";
          }
          const Status late = (*joined)->barrier(Deadline::inMs(100));
          ++given;
          return late.message().find("rank 1 has not entered control exchange") == 0 ? "" : late.message();
        }) == "");
}

TEST_CASE("a descriptor is fetched by a peer, before or after it is served") {
  const Rendezvous rendezvous;
  CHECK(onRanks(3, [&](int rank) -> std::string {
          ControlResult joined = rendezvous.join(rank, 3);
          if (!joined.ok()) return joined.status().message();
          Control& control = **joined;
          const Fd memory(memfd_create("test", MFD_CLOEXEC));
          if (ftruncate(memory.get(), 4096) != 0 || pwrite(memory.get(), &rank, sizeof rank, 0) < 0) return "memfd";
          if (rank == 1) ::usleep(20'000);  // the others ask before it serves
          if (const Status s = control.serve("memory", memory.get()); !s.ok()) return s.message();
          if (control.serve("memory", memory.get()).ok()) return "a key was served twice";
          for (int peer = 0; peer < 3; ++peer) {  // itself too
            Result<Fd> fetched = awaitValue(*control.fetch(peer, "memory"), soon(), "it");
            if (!fetched.ok()) return fetched.status().message();
            int content = -1;
            if (pread(fetched->get(), &content, sizeof content, 0) < 0 || content != peer) return "wrong memory";
          }
          if (const Status s = control.barrier(soon()); !s.ok()) return s.message();
          control.unserve("memory");
          if (const Status s = control.barrier(soon()); !s.ok()) return s.message();
          const Status late = awaitValue(*control.fetch((rank + 1) % 3, "memory"), Deadline::inMs(30), "it").status();
          return late.code() == tuttiTimeout ? "" : cat("not a timeout: ", late.message());
        }) == "");
}

TEST_CASE("a failure that one rank reports ends the waits of all, and is told once") {
  const Rendezvous rendezvous;
  std::atomic<int> told{0}, up{0};
  const Deadline soonOver = soon();
  CHECK(onRanks(5, [&](int rank) -> std::string {
          ControlResult joined =
              loopbackSession()->join(rendezvous.request(rank, 5), soon(), nullptr, [&](const Failure& f) {
                if (f.rank == 2) ++told;
              });
          if (!joined.ok()) return joined.status().message();
          Control& control = **joined;
          ++up;
          while (up < 5) ::usleep(1000);  // or some would hear of it while they still join
          if (rank == 2) {
            control.reportFailure({2, remoteError("rank 2 has had enough")});
            control.reportFailure({2, remoteError("again")});
          }
          const Status status =
              rank % 2 == 0 ? control.barrier(soon()) : awaitValue(*control.fetch(0, "never"), soon(), "it").status();
          if (status.message() != "rank 2 has had enough") return status.message();
          while (told < 5 && !soonOver.passed()) ::usleep(1000);
          return control.failure().message() == status.message() ? "" : "another failure";
        }) == "");
  CHECK(told == 5);
}

TEST_CASE("an exchange that a rank stays away from ends at the deadline") {
  const Rendezvous rendezvous;
  std::atomic<int> over{0};
  CHECK(onRanks(2, [&](int rank) -> std::string {
          ControlResult joined = rendezvous.join(rank, 2);
          if (!joined.ok()) return joined.status().message();
          const Status status = rank == 0 ? (*joined)->barrier(Deadline::inMs(50)) : Status();
          ++over;
          while (over < 2) ::usleep(1000);
          return rank == 1 || status.code() == tuttiTimeout ? "" : status.message();
        }) == "");
}

TEST_CASE("nothing is left open") {
  const auto session = [] {
    const Rendezvous rendezvous;
    return onRanks(4, [&](int rank) -> std::string {
      ControlResult joined = rendezvous.join(rank, 4);
      if (!joined.ok()) return joined.status().message();
      const Result<Fd> untaken = rank == 0 ? awaitValue(*(*joined)->open(1, 7), soon(), "it") : Result<Fd>(Fd());
      return (*joined)->barrier(soon()).message();
    });
  };
  CHECK(session() == "");
  const size_t fds = countEntries("/proc/self/fd"), threads = countEntries("/proc/self/task");
  CHECK(session() == "");
  CHECK(countEntries("/proc/self/fd") == fds);
  CHECK(countEntries("/proc/self/task") == threads);
}
