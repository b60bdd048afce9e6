// What ranks tell each other at init: of which release they are, and what is not understood.
#include "src/comm/peer_descriptor.hpp"

#include <catch2/catch.hpp>

#include "src/base/release.hpp"

using namespace tutti;

namespace {

PeerDescriptor descriptorOf(int rank, const std::string& release) {
  PeerDescriptor descriptor;
  descriptor.info.rank = rank;
  descriptor.release = release;
  descriptor.settings = "all alike";
  return descriptor;
}

}  // namespace

TEST_CASE("a descriptor comes back as it was, and a part of one is not understood") {
  const std::string bytes = encodeDescriptor(descriptorOf(3, releaseText()));
  const Result<PeerDescriptor> same = decodeDescriptor(3, bytes);
  REQUIRE(same.ok());
  CHECK(same->release == releaseText());
  CHECK(same->settings == "all alike");
  for (size_t n = 0; n < bytes.size(); ++n) CHECK_FALSE(decodeDescriptor(3, bytes.substr(0, n)).ok());
  CHECK_FALSE(decodeDescriptor(3, bytes + "x").ok());
}

TEST_CASE("ranks of different releases are told both") {
  const Status differ = compareReleases({descriptorOf(0, releaseText()), descriptorOf(1, "9.9.9 (revision 0)")}, 0);
  CHECK(differ.code() == tuttiInvalidUsage);
  CHECK(differ.message().find("rank 1 runs another release of Tutti: 9.9.9 (revision 0)") != std::string::npos);
  CHECK(differ.message().find(releaseText()) != std::string::npos);
  CHECK(compareReleases({descriptorOf(0, releaseText()), descriptorOf(1, releaseText())}, 0).ok());
}

TEST_CASE("a descriptor whose form is of another release names that release") {
  std::string bytes = encodeDescriptor(descriptorOf(2, "9.9.9 (revision 0)"));
  size_t last = 0;  // byte of the version: the form's number is its lowest
  while (last < 8 && bytes[last] != 1) ++last;
  REQUIRE(last < 8);
  bytes[last] = 77;
  const Status status = decodeDescriptor(2, bytes).status();
  CHECK(status.code() == tuttiInvalidUsage);
  CHECK(status.message().find("9.9.9 (revision 0)") != std::string::npos);
  bytes[0] = bytes[7] = 0x55;  // nothing of ours
  CHECK(decodeDescriptor(2, bytes).status().message().find("an unknown one") != std::string::npos);
}

TEST_CASE("ranks of containers share the cores of their machine, those of another machine do not") {
  std::vector<PeerDescriptor> all;
  const auto add = [&all](uint64_t host, uint64_t kernel, const char* cpus) {
    PeerDescriptor descriptor = descriptorOf(static_cast<int>(all.size()), releaseText());
    descriptor.info.hostId = host;
    descriptor.kernel = kernel;
    descriptor.cpus = cpus;
    all.push_back(std::move(descriptor));
  };
  add(1, 10, "\x03");
  add(2, 10, "\x03");
  add(3, 20, "\x03");
  CHECK(cpusOfMachine(all, 10) == 2);
  CHECK_FALSE(oversubscribed(all, 10));
  CHECK(oversubscribed(all, 10, /*threadsPerRank=*/2));
  CHECK_FALSE(oversubscribed(all, 20, /*threadsPerRank=*/2));
  add(2, 10, "\x03");
  CHECK(oversubscribed(all, 10));
  CHECK_FALSE(oversubscribed(all, 20));
  add(4, 10, "\x0c");  // a container with processors of its own
  CHECK(cpusOfMachine(all, 10) == 4);
  CHECK_FALSE(oversubscribed(all, 10));
  CHECK(decodeDescriptor(4, encodeDescriptor(all.back()))->kernel == 10);
}
