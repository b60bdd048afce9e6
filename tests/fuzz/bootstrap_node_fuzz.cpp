// Bytes from outside against a BootstrapNode: strangers' handshakes, and messages of peers that know the secret but not
// manners.
//
// The input is a program: an operation byte, a byte that picks a link, and for messages a length and that many bytes.
// The BootstrapNode serves a rendezvous, is rank 0 of 3 and has joined; its network takes everything and answers
// nothing.  Dialed links are completed by an honest acceptor when the program says so, so that what comes behind the
// proof is reached. Nothing may crash, hang, or hand out more than the input's size warrants.
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "src/control/authentication.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/control/handshake.hpp"
#include "src/control/sealed_links.hpp"
#include "src/control/wire.hpp"

using namespace tutti;

namespace {

const Secret kSecret = {1};
const CommId kComm = {2};

class FuzzNetwork : public Network {
 public:
  int64_t nowNs() override { return now; }
  void randomBytes(std::span<std::byte> out) override {
    for (std::byte& b : out) b = static_cast<std::byte>(random = random * 1103515245 + 12345);
  }
  LinkId dial(const ControlAddress&) override {
    dialed.push_back(nextLink);
    return nextLink++;
  }
  void send(LinkId link, std::string_view message) override { sent[link] = message; }
  void close(LinkId link) override { sent.erase(link); }
  void handOver(LinkId link, const std::string&, const DirectionKeys&) override { sent.erase(link); }

  int64_t now = 1;
  uint32_t random = 1;
  LinkId nextLink = 1;
  std::vector<LinkId> dialed;
  std::map<LinkId, std::string> sent;  // the newest message on each link
  std::map<LinkId, Sealer> sealers;    // of honest peers
};

/// Begins a proven link of the overlay as a peer does that has had nothing.
void beginOverlay(BootstrapNode& bootstrap, FuzzNetwork& network, LinkId link, Purpose purpose) {
  if (purpose != Purpose::Overlay) return;
  Writer resume(MessageType::Resume);
  resume.u64(0);
  resume.text("fuzz:1");
  bootstrap.onMessage(link, network.sealers.at(link).seal(resume.str()));
}

/// Plays the other end of a link that the BootstrapNode has dialed, honestly.
void acceptHonestly(BootstrapNode& bootstrap, FuzzNetwork& network, LinkId link) {
  bootstrap.onConnected(link);
  if (!network.sent.contains(link)) return;
  const std::string hello = network.sent[link];
  const Result<Hello> read = AcceptorProof::readHello(hello);
  if (!read.ok()) return;
  const AcceptorProof proof(kSecret, hello, Nonce{});
  bootstrap.onMessage(link, proof.challenge());
  const Result<std::string> accepted = proof.onProof(network.sent[link]);
  if (!accepted.ok()) return;
  network.sealers.insert_or_assign(link, Sealer(proof.keys().send, false));
  bootstrap.onMessage(link, *accepted);
  beginOverlay(bootstrap, network, link, read->purpose);
}

/// Dials the BootstrapNode as a rank that knows the secret.
void dialHonestly(BootstrapNode& bootstrap, FuzzNetwork& network, LinkId link, const Hello& hello) {
  DialerProof proof(kSecret, hello, Nonce{});
  bootstrap.onAccepted(link);
  bootstrap.onMessage(link, proof.hello());
  const Result<std::string> answer = proof.onChallenge(network.sent[link]);
  if (!answer.ok()) return;
  network.sealers.insert_or_assign(link, Sealer(proof.keys().send, false));
  bootstrap.onMessage(link, *answer);
  beginOverlay(bootstrap, network, link, hello.purpose);
}

Vote voteOf(uint8_t pick) {
  Vote vote{.call = {.kind = static_cast<MembershipCall::Kind>(pick % 5)}};
  if (pick % 3 == 0) vote.excluded.push_back(1 + pick % 2);
  return vote;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  FuzzNetwork network;
  BootstrapNode bootstrap(network, [] {});
  bootstrap.serveRendezvous(kComm, kSecret, "place");
  JoinRequest request{.commId = kComm, .secret = kSecret, .rank = 0, .nRanks = 3};
  request.self = "fuzz:0";
  request.rendezvous = "fuzz:9";
  request.deadlineNs = 1'000'000'000'000;
  std::optional<MemberId> member = bootstrap.join(request);
  std::vector<LinkId> links;
  Reader in(std::string_view(reinterpret_cast<const char*>(data), bytes));
  while (in.ok() && !in.done()) {
    const uint8_t op = in.u8();
    const uint8_t pick = in.u8();
    for (LinkId link : std::exchange(network.dialed, {})) links.push_back(link);
    const LinkId link = links.empty() ? 77 : links[pick % links.size()];
    switch (op % 12) {
      case 0:
        bootstrap.onAccepted(network.nextLink);
        links.push_back(network.nextLink++);
        break;
      case 1: acceptHonestly(bootstrap, network, link); break;
      case 2:  // as rank 1 or 2, to the rendezvous or to the rank
        links.push_back(network.nextLink);
        dialHonestly(
            bootstrap, network, network.nextLink++,
            {static_cast<Purpose>(1 + pick % 6), kComm, 1 + pick / 6 % 2, pick % 6 == 0 ? -1 : 0, 3, pick % 7});
        break;
      case 3: bootstrap.onClosed(link, remoteError("closed")); break;
      case 4:
        network.now = std::max(network.now, std::min(bootstrap.nextTimerNs(), network.now + (int64_t{pick} << 28)));
        bootstrap.onTimer();
        break;
      case 5:
        if (member && bootstrap.up(*member)) (void)bootstrap.allGather(*member, std::string(pick, 'x'));
        break;
      case 6:
        if (member) bootstrap.inquire(*member, static_cast<InquiryReason>(pick % 3), pick, pick % 4 - 1, 1'000'000);
        break;
      case 7:
        if (member && pick == 255) {
          bootstrap.leave(*member);
          member.reset();
        }
        if (pick < 64) bootstrap.rankEnded(kComm, pick % 5 - 1, "ended with status 3");
        if (member && pick >= 64 && pick < 128) bootstrap.vote(*member, voteOf(pick));
        break;
      default: {
        const uint32_t length = in.u8() | (op > 240 ? in.u8() << 8 : 0);
        std::string message(length, '\0');
        in.raw(message.data(), message.size());
        const auto sealer = network.sealers.find(link);
        const bool seals = sealer != network.sealers.end() && pick % 8 != 0;
        if (seals) message = sealer->second.seal(message);
        if (message.size() <= bootstrap.messageLimit(link)) bootstrap.onMessage(link, message);
      }
    }
  }
  return 0;
}
