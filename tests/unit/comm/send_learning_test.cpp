// A sender finds out which protocol is the faster one for its sends, from what their receiver says.
#include <catch2/catch.hpp>
#include <deque>
#include <optional>
#include <vector>

#include "src/comm/handle.hpp"
#include "src/comm/send_learning.hpp"
#include "src/device/host/host_memory.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// A peer that says what a send took once it has got `behind` more.
class Peer final : public Endpoint {
 public:
  Peer(int64_t slotsNs, int64_t directNs, size_t behind = 0) : ns_{slotsNs, directNs}, behind_(behind) {}

  void sent(const SendProtocolChooser::Choice& choice) {
    coming_.push_back(choice.beganNs != 0 ? ns_[choice.lends ? 1 : 0] : 0);
    timed_ = timed_ || choice.beganNs != 0;
    if (choice.beganNs != 0) said_.reset();
    if (coming_.size() <= behind_) return;
    if (coming_.front() != 0) said_ = coming_.front();
    coming_.pop_front();
  }
  bool timed() const { return timed_; }

  std::optional<int64_t> timedNs() const override { return said_; }
  size_t slotBytes() const override { return 1; }
  Result<bool> send(const std::byte*, size_t, const Fingerprint&) override { return true; }
  Result<std::span<std::byte>> reserve() override { return std::span<std::byte>(); }
  Result<bool> commit(size_t, const Fingerprint&) override { return true; }
  Result<const std::byte*> peek(const Expect&) override { return static_cast<const std::byte*>(nullptr); }
  void release() override {}
  Result<bool> receive(std::byte*, const Expect&) override { return false; }

 private:
  const int64_t ns_[2];
  const size_t behind_;
  std::deque<int64_t> coming_;
  std::optional<int64_t> said_;
  bool timed_ = false;
};

constexpr SendKey kKey{1, 65536, false};

struct SendCounts {
  int slots = 0, direct = 0;
};

/// Sends until a protocol was found, and 100 times more: these are counted.
SendCounts sendsBy(SendKind& kind, Peer& peer, const std::byte* data) {
  SendCounts counts;
  for (int i = 0, after = 0; i < 100'000 && after < 100; ++i) {
    const SendProtocolChooser::Choice choice = kind.choose(peer, data);
    peer.sent(choice);
    if (!kind.trials().settled()) continue;
    ++after;
    ++(choice.lends ? counts.direct : counts.slots);
  }
  return counts;
}

/// There and back, until both ranks know; the data is checked.
std::string learnsFromMessages(const Rank& r) {
  constexpr size_t kBytes = 40'000;
  std::vector<uint8_t> out(kBytes), in(kBytes);
  const int peer = 1 - r.rank;
  SendLearning& sends = r.comm->comm->planner().sends();
  uint8_t known = 0;
  for (int call = 0; call < 100'000 && known != 3; ++call) {
    for (size_t i = 0; i < kBytes; ++i) out[i] = static_cast<uint8_t>(i * 7 + static_cast<size_t>(call + r.rank));
    const SendKind* const kind = sends.kindOf({peer, kBytes, false}, [] { return PlannedSend{true}; });
    out[0] = kind->trials().nWays() == 2 && kind->trials().settled() ? 1 : 0;
    const uint8_t mine = out[0];
    if (r.rank == 0) RANK_TRY(tuttiSend(out.data(), kBytes, tuttiUint8, peer, r.comm, nullptr));
    RANK_TRY(tuttiRecv(in.data(), kBytes, tuttiUint8, peer, r.comm, nullptr));
    if (r.rank == 1) RANK_TRY(tuttiSend(out.data(), kBytes, tuttiUint8, peer, r.comm, nullptr));
    for (size_t i = 1; i < kBytes; ++i)
      RANK_CHECK(in[i] == static_cast<uint8_t>(i * 7 + static_cast<size_t>(call + peer)));
    known = static_cast<uint8_t>(mine | in[0] << 1);
  }
  RANK_CHECK(known == 3);
  return "";
}

}  // namespace

TEST_CASE("sends go by the faster protocol, whatever was planned") {
  std::byte data{};
  for (const bool planned : {false, true}) {
    for (const size_t behind : {0, 1, 7, 20}) {
      INFO((planned ? "direct" : "slots") << " planned, " << behind << " sends ahead");
      SendLearning all;
      Peer slow(9'000, 5'000, behind), fast(5'000, 9'000, behind);
      CHECK(sendsBy(*all.kindOf(kKey, [&] { return PlannedSend{planned}; }), slow, &data).direct == 100);
      CHECK(sendsBy(*all.kindOf({2, 65536, false}, [&] { return PlannedSend{planned}; }), fast, &data).slots == 100);
      const std::vector<LearnedSend> found = all.takeFound();
      REQUIRE(found.size() == 2);
      CHECK(found[0].lends);
      CHECK(found[0].planned == planned);
      CHECK(found[0].ns == 5'000);
      CHECK(!found[1].lends);
    }
  }
}

TEST_CASE("what a sender waits for the end of a message that it lends counts") {
  std::byte data{};
  for (const int64_t handOverNs : {0, 500}) {
    SendLearning all;
    Peer peer(3'300, 3'000);
    const SendCounts counts = sendsBy(*all.kindOf(kKey, [&] { return PlannedSend{false, handOverNs}; }), peer, &data);
    CHECK((handOverNs == 0 ? counts.direct : counts.slots) == 100);
  }
}

TEST_CASE("sends whose receiver says nothing go as planned") {
  const Peer silent(9'000, 5'000);  // is told of no send
  std::byte data{};
  for (const bool planned : {false, true}) {
    SendLearning all;
    SendKind* const kind = all.kindOf(kKey, [&] { return PlannedSend{planned}; });
    for (int i = 0; i < 5'000; ++i) CHECK(kind->choose(silent, &data).lends == planned);
    CHECK(all.takeFound().empty());
  }
}

TEST_CASE("sends in memory that the peer maps are not timed") {
  void* const memory = *hostAlloc(65536);
  SendLearning all;
  Peer peer(9'000, 5'000);
  SendKind* const kind = all.kindOf(kKey, [] { return PlannedSend{}; });
  for (int i = 0; i < 5'000; ++i) peer.sent(kind->choose(peer, static_cast<const std::byte*>(memory)));
  CHECK(!peer.timed());
  CHECK(all.takeFound().empty());
  CHECK(hostFree(memory).ok());
}

TEST_CASE("messages teach both ends of a pair, and come whole by both protocols") {
  CHECK(onRanks(2, learnsFromMessages) == "");
}

TEST_CASE("sends teach nothing where that is switched off, and where the protocol is the user's") {
  const auto chooses = [](const Rank& r) {
    return std::string(r.comm->comm->planner().sendChooser(1 - r.rank, 65536, false) != nullptr ? ""
                                                                                                : "nothing chooses");
  };
  CHECK(onRanks(2, chooses) == "");
  {
    const Variable proto("TUTTI_PROTO", "slots");
    CHECK(onRanks(2, chooses) != "");
  }
  const Variable learn("TUTTI_LEARN", "0");
  CHECK(onRanks(2, chooses) != "");
}

TEST_CASE("what one job learned of its sends the next one takes at once") {
  const TempFolder folder;
  const Variable where("TUTTI_CALIBRATION", cat(folder.path(), "/figures"));
  const auto lends = [](const Rank& r) { return r.comm->comm->planner().lends(1 - r.rank, 65536); };
  const auto finds = [&](const Rank& r) -> std::string {
    const bool planned = lends(r);
    SendLearning& sends = r.comm->comm->planner().sends();
    sends.add({{1 - r.rank, 65536, false}, !planned, false, 5'000, 9'000});
    sends.add({{1 - r.rank, 8192, false}, !planned, false, 8'900, 9'000});  // hardly faster
    sends.add({{1 - r.rank, 16384, true}, !planned, false, 5'000, 9'000});  // in groups
    return "";
  };
  REQUIRE(onRanks(2, finds) == "");
  const Tuning kept = tuningIn(thisMachine(), TuningFile::Learned);
  REQUIRE(kept.sets.size() == 1);
  REQUIRE(kept.sets[0].learnedSends.size() == 1);
  const TunedSend send = kept.sets[0].learnedSends[0];
  CHECK(send.bytes == 65536);
  CHECK(send.us == 5);
  const auto takes = [&](const Rank& r) {
    return std::string(lends(r) == (send.protocol == Protocol::Direct) ? "" : "not taken");
  };
  CHECK(onRanks(2, takes) == "");
}
