// Where secrets stand, who gets them, and who does not.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "src/base/random.hpp"
#include "src/control/handshake.hpp"
#include "src/control/session/place_addresses.hpp"
#include "src/control/session/place_secret.hpp"
#include "tests/unit/control/ranks.hpp"

using namespace tutti;

namespace {

struct Mapping {
  uintptr_t begin = 0, end = 0;
  bool readable = false, dumped = true;
};

std::vector<Mapping> mappings() {
  std::ifstream smaps("/proc/self/smaps");
  std::vector<Mapping> all;
  for (std::string line; std::getline(smaps, line);) {
    Mapping m;
    char r = '-';
    if (std::sscanf(line.c_str(), "%lx-%lx %c", &m.begin, &m.end, &r) == 3) {
      m.readable = r == 'r';
      all.push_back(m);
    } else if (line.starts_with("VmFlags:")) {
      all.back().dumped = (line + " ").find(" dd ") == std::string::npos;
    }
  }
  return all;
}

/// A buffer that no search finds: it is not in core dumps either.
class Scratch {
 public:
  static constexpr size_t kBytes = 1 << 20;
  Scratch()
      : at_(static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    (void)::madvise(at_, kBytes, MADV_DONTDUMP);
  }
  ~Scratch() { ::munmap(at_, kBytes); }
  char* data() { return at_; }

 private:
  char* at_;
};

/// How often these bytes stand in memory that a core dump of this process would have.
int copiesInCore(std::string_view bytes) {
  Scratch scratch;
  const Fd memory(::open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  REQUIRE(memory.valid());
  int copies = 0;
  for (const Mapping& m : mappings()) {
    if (!m.readable || !m.dumped || m.end - m.begin > (size_t{1} << 32)) continue;
    for (uintptr_t at = m.begin; at < m.end; at += Scratch::kBytes - bytes.size() + 1) {
      const size_t bytesHere = std::min<size_t>(Scratch::kBytes, m.end - at);
      const ssize_t n = ::pread(memory.get(), scratch.data(), bytesHere, static_cast<off_t>(at));
      const std::string_view seen(scratch.data(), static_cast<size_t>(std::max<ssize_t>(n, 0)));
      for (size_t found = seen.find(bytes); found != std::string_view::npos; found = seen.find(bytes, found + 1))
        ++copies;
    }
  }
  return copies;
}

CommId someName() { return randomBytes<CommId>(); }

}  // namespace

TEST_CASE("no core dump has the secrets of ranks that met, of their child, or of keys that have gone") {
  Secret secret = Secret::random();
  const Secret child = deriveSecret(secret, "child");
  // The search finds what is there.
  std::string copy(secret.view());
  CHECK(copiesInCore(secret.view()) == 1);
  wipe(copy);
  test::Rendezvous place;
  place.session->serveRendezvous({3}, secret, "place");
  CHECK(test::onRanks(3, [&](int rank) -> std::string {
          JoinRequest request = place.request(rank, 3);
          request.commId = {3};
          request.secret = secret;
          const auto joined =
              test::loopbackSession()->join(request, Deadline::inMs(20'000), nullptr, [](const Failure&) {});
          if (!joined.ok()) return joined.status().message();
          if (const Status met = (*joined)->barrier(Deadline::inMs(20'000)); !met.ok()) return met.message();
          return rank == 0 && copiesInCore(secret.view()) + copiesInCore(child.view()) > 0 ? "it is there" : "";
        }) == "");
  CHECK(copiesInCore(secret.view()) == 0);
  CHECK(copiesInCore(child.view()) == 0);
}

TEST_CASE("copies of a key share its place, and the last one wipes it") {
  const unsigned char* place = nullptr;
  {
    const Secret key = {1, 2, 3};
    const Secret same = key;
    place = key.data();
    CHECK(same.data() == place);
    CHECK(same == Secret{1, 2, 3});
    CHECK_FALSE(same == Secret{1, 2, 4});
  }
  CHECK(std::all_of(place, place + Secret::kBytes, [](unsigned char byte) { return byte == 0; }));
  CHECK(Secret().empty());
  CHECK(Secret() == Secret{0});
  CHECK_FALSE(Secret::random() == Secret::random());
}

TEST_CASE("a unique id travels sealed among the ranks of a communicator") {
  const Secret shared = Secret::random();
  MeetingPlace place{.commId = someName(), .secret = Secret::random(), .controlAddress = "10.0.0.7:4021"};
  const tuttiUniqueId id = encodeUniqueId(place);
  const std::string sealed = sealUniqueId(shared, id);
  CHECK(sealed.find(place.secret.view()) == std::string::npos);
  const Result<MeetingPlace> opened = openSealedUniqueId(shared, sealed);
  REQUIRE(opened.ok());
  CHECK(opened->secret == place.secret);
  CHECK(opened->commId == place.commId);
  CHECK(opened->controlAddress == place.controlAddress);
  CHECK_FALSE(openSealedUniqueId(Secret::random(), sealed).ok());
  for (size_t bit = 0; bit < sealed.size() * 8; ++bit) {
    std::string damaged = sealed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    if (openSealedUniqueId(shared, damaged).ok()) FAIL("bit " << bit << " does not count");
  }
  CHECK_FALSE(openSealedUniqueId(shared, sealed.substr(1)).ok());
  place.secretOfUser = true;
  CHECK(openSealedUniqueId(shared, sealUniqueId(shared, encodeUniqueId(place)))->secretOfUser);
}

TEST_CASE("the secret of a place goes to processes of its user, and to nobody else") {
  const CommId name = someName();
  const std::shared_ptr<Session> server = test::loopbackSession();
  const Secret secret = Secret::random();
  CHECK(fetchPlaceSecret(name, "there", Deadline::inMs(1), nullptr).status().code() == tuttiTimeout);
  REQUIRE(server->servePlaceSecret(name, secret).ok());
  CHECK(*fetchPlaceSecret(name, "there", Deadline::inMs(20'000), nullptr) == secret);
  CHECK_FALSE(test::loopbackSession()->servePlaceSecret(name, secret).ok());  // the name is taken
  if (geteuid() != 0) return;                                                 // cannot be anybody else
  const pid_t child = fork();
  if (child == 0) {
    // The socket's name has the user's number, so a stranger has to know it.
    const std::string socketName = cat("tutti-place-0-", toHex(name.data(), name.size()));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, socketName.data(), socketName.size());
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + socketName.size());
    char got[64];
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
    const bool connected =
        setresuid(65534, 65534, 65534) == 0 && ::connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0;
    _exit(!connected ? 2 : ::recv(fd, got, sizeof got, 0) > 0 ? 1 : 0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("a rank without TUTTI_SECRET hears that the place has one") {
  const CommId name = someName();
  const std::shared_ptr<Session> server = test::loopbackSession();
  REQUIRE(server->servePlaceSecret(name, {}).ok());
  const Status told = fetchPlaceSecret(name, "127.0.0.1:7", Deadline::inMs(20'000), nullptr).status();
  CHECK(told.code() == tuttiInvalidUsage);
  CHECK(told.message().find("the rendezvous at 127.0.0.1:7 has a secret by TUTTI_SECRET, which this rank lacks") == 0);
}

TEST_CASE("places listen where their ranks are, and everywhere only where that is asked for") {
  const auto listens = [](const char* host, Reach reach) { return placeAddresses({host}, 7, reach); };
  for (const Reach reach : {Reach::Host, Reach::Network}) {
    const auto addresses = listens("127.0.0.1", reach);
    REQUIRE(addresses.ok());
    CHECK(std::any_of(addresses->begin(), addresses->end(), isLoopback));
    CHECK(std::all_of(addresses->begin(), addresses->end(), isLoopback) == (reach == Reach::Host));
    for (const SocketAddress& address : *addresses) {
      CHECK(address.port() == 7);
      CHECK(address.text() != "0.0.0.0:7");
      CHECK(address.text() != "[::]:7");
    }
  }
  CHECK(listens("0.0.0.0", Reach::Network)->front().text() == "0.0.0.0:7");
  CHECK(staysOnHost("127.0.0.1:5,[::1]:5"));
  CHECK_FALSE(staysOnHost("127.0.0.1:5,10.0.0.7:5"));
  CHECK(isThisHost("localhost"));
  CHECK(isThisHost("::1"));
  CHECK_FALSE(isThisHost("10.0.0.7"));
  CHECK_FALSE(isThisHost("node0"));
}
