#include "transport/ncclnet/connection.hpp"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/log.hpp"

namespace tutti::ncclnet {
namespace {

constexpr uint32_t kLooksPerStream = 64;  // a look at the peer's stream is a system call
constexpr size_t kPage = 4096;

}  // namespace

Connection::Connection(int peer, std::shared_ptr<Plugin> plugin, const Options& options, Fd stream, OnDevice onDevice)
    : peer_(peer),
      plugin_(std::move(plugin)),
      net_(plugin_->net()),
      stream_(std::move(stream)),
      slots_(std::min(options.slots, kMostRequests)),
      stride_((kHeaderBytes + options.slotBytes + kPage - 1) / kPage * kPage),
      comms_(peer, plugin_),
      onDevice_(onDevice),
      sends_(slots_),
      receives_(slots_),
      payloadOf_(slots_),
      fetches_(slots_) {
  card_.slotBytes = options.slotBytes;
  card_.onDevice = onDevice == OnDevice::No ? 0 : 1;
}

Result<std::unique_ptr<Connection>> Connection::create(int peer, std::shared_ptr<Plugin> plugin, const Options& options,
                                                       Fd stream, OnDevice onDevice) {
  std::unique_ptr<Connection> made(new Connection(peer, std::move(plugin), options, std::move(stream), onDevice));
  TUTTI_ASSIGN(made->memory_, PrivatePages::take(2 * made->slots_ * made->stride_, "slots"));
  TUTTI_ASSIGN(made->card_.handle, made->comms_.listen());
  return made;
}

Result<bool> Connection::connect(Card* theirs) {
  TUTTI_TRY(checkCard(card_, *theirs, peer_));
  if (up_) return true;
  TUTTI_ASSIGN(const bool connected, comms_.connect(&theirs->handle));
  if (!connected) return false;
  theirsOnDevice_ = theirs->onDevice == 1;
  TUTTI_TRY(registerSlots());
  up_ = true;
  (void)driveReceives();  // what the peer sends first finds room
  TUTTI_TRY(trouble_);
  return true;
}

Result<PayloadCard> Connection::listenForPayloads() {
  payloads_ = std::make_shared<Payloads>(peer_, plugin_, onDevice_ == OnDevice::Flushed);
  PayloadCard card;
  TUTTI_ASSIGN(card.handle, payloads_->listen());
  return card;
}

Result<bool> Connection::connectPayloads(PayloadCard* theirs) {
  TUTTI_ASSIGN(const bool up, payloads_->connect(&theirs->handle));
  if (up) TUTTI_TRY(payloads_->registerSlots(memory_.data() + slots_ * stride_, memory_.data(), slots_ * stride_));
  return up;
}

Status Connection::registerSlots() {
  const size_t half = slots_ * stride_;
  Code code = net_.regMr(comms_.receiving(), memory_.data(), half, kHostMemory, &receiveMemory_);
  if (code == kSuccess) code = net_.regMr(comms_.sending(), memory_.data() + half, half, kHostMemory, &sendMemory_);
  if (code == kSuccess) return {};
  return systemError(ErrorCode::CannotRegister, plugin_->describe(), " cannot register ", half,
                     " bytes: ", Plugin::complaint("regMr", code),
                     "; less TUTTI_SLOTS or TUTTI_SLOT_BYTES, or more locked memory (ulimit -l), may help");
}

Connection::~Connection() {
  const int64_t begin = nowNs();
  const int64_t end = begin + plugin_->closeNs();
  while (up_ && sent_ < written_ && !mute_ && !gone_ && nowNs() < end) {
    if (payloads_ != nullptr) fetchTheRest();
    drive();
  }
  if (up_ && !mute_ && !deaf_) sayEnd();
  while (saidEnd_ && !isOver() && !mute_ && !deaf_ && nowNs() < end) {
    fetchTheRest();
    lookAtStream();
    if (!drive() && gone_) break;
    sched_yield();
  }
  plugin_->closeNs() -= nowNs() - begin;
  close();
}

void Connection::close() {
  if (payloads_ != nullptr) payloads_->close();
  if (sendMemory_ != nullptr) comms_.tell("deregMr", net_.deregMr(comms_.sending(), sendMemory_));
  if (receiveMemory_ != nullptr) comms_.tell("deregMr", net_.deregMr(comms_.receiving(), receiveMemory_));
  comms_.close();
}

// A comm that is closed with requests under way may end others of its plugin's.  So both ends post no more irecvs than
// they need for what the other is known to have sent, and end each other's.
void Connection::sayEnd() {
  if (std::exchange(saidEnd_, true)) return;
  mostPosted_ = std::max(posted_, theirEnd_.messages);
  const End mine{sent_, mostPosted_};
  const ssize_t n = ::send(stream_.get(), &mine, sizeof mine, MSG_DONTWAIT | MSG_NOSIGNAL);
  gone_ = gone_ || n != sizeof mine;
}

/// Of messages that nobody reads any more, so that the peer's payloads can leave.
void Connection::fetchTheRest() {
  for (uint64_t next = fetched_; next < arrived_; ++next)
    if (isApart(next)) fetch(next, nullptr, nullptr);
  fetched_ = arrived_;
  while (givenBack_ < arrived_ && (!isApart(givenBack_) || isFetched(givenBack_))) ++givenBack_;
}

bool Connection::isOver() const {
  if (payloads_ != nullptr && !payloads_->allReceived()) return false;
  return isTold() && sent_ == written_ && written_ >= theirEnd_.receives && arrived_ + farewells_ == mostPosted_;
}

bool Connection::drive() {
  const bool sent = driveSends();
  const bool received = driveReceives();
  const bool moved = drivePayloads() || received || sent;
  if (!moved && ++looks_ % kLooksPerStream == 0) lookAtStream();
  return moved;
}

bool Connection::driveSends() {
  bool moved = false;
  while (isTold() && written_ < theirEnd_.receives && hasRoom()) write(Header());
  while (!mute_ && started_ < written_) {
    std::byte* const from = staged(started_);
    void*& request = sends_[started_ % slots_] = nullptr;
    const size_t bytes = kHeaderBytes + bytesBeside(*reinterpret_cast<const Header*>(from));
    const Code code = net_.isend(comms_.sending(), from, bytes, sendMemory_, &request);
    if (code != kSuccess) mute_ = true, failed("isend", code);
    if (code != kSuccess || request == nullptr) break;
    ++started_;
  }
  while (!mute_ && sent_ < started_) {
    int done = 1, bytes = 0;
    void*& request = sends_[sent_ % slots_];
    const Code code = request != nullptr ? net_.test(request, &done, &bytes) : kSuccess;
    if (code != kSuccess) mute_ = true, failed("test of an isend", code);
    if (code != kSuccess || done == 0) break;
    request = nullptr;
    if (payloads_ != nullptr && payloads_->sent() < payloadOf_[sent_ % slots_]) break;
    ++sent_;
    moved = true;
  }
  return moved;
}

bool Connection::driveReceives() {
  bool moved = false;
  while (!deaf_ && posted_ < std::min(givenBack_ + slots_, mostPosted_)) {
    void*& request = receives_[posted_ % slots_] = nullptr;
    const Code code =
        net_.irecv(comms_.receiving(), slot(posted_), kHeaderBytes + slotBytes(), receiveMemory_, &request);
    if (code != kSuccess) deaf_ = true, failed("irecv", code);
    if (code != kSuccess || request == nullptr) break;
    ++posted_;
  }
  while (!deaf_ && arrived_ + farewells_ < posted_) {
    int done = 0, bytes = 0;
    const Code code = net_.test(receives_[(arrived_ + farewells_) % slots_], &done, &bytes);
    if (code != kSuccess) deaf_ = true, failed("test of an irecv", code);
    if (code != kSuccess || done == 0 || !take(static_cast<size_t>(bytes))) break;
    moved = true;
  }
  return moved;
}

// A failure of one direction ends that direction alone, as it does for headers.
bool Connection::drivePayloads() {
  if (payloads_ == nullptr) return false;
  const bool moved = payloads_->drive();
  if (!payloads_->sendingTrouble().ok() && !std::exchange(mute_, true)) fail(payloads_->sendingTrouble());
  if (!payloads_->receivingTrouble().ok() && !std::exchange(deaf_, true)) fail(payloads_->receivingTrouble());
  return moved;
}

bool Connection::take(size_t bytes) {
  const Incoming came = judge(header(arrived_ + farewells_), bytes, slotBytes(), arrived_, payloads_ != nullptr);
  if (came == Incoming::Farewell) ++farewells_;
  if (came == Incoming::Next) arrived_.store(arrived_ + 1, std::memory_order_release);
  if (came != Incoming::Odd) return true;
  deaf_ = true;
  fail(remoteError(ErrorCode::DataDamaged, who(), ": message ", arrived_ + 1, " came with ", bytes,
                   " bytes that are not it"));
  return false;
}

void Connection::write(const Header& header) {
  std::memcpy(staged(written_), &header, kHeaderBytes);
  ++written_;
}

void Connection::fetch(uint64_t message, std::byte* into, const Region* region) {
  fetched_ = message + 1;
  std::byte* const to = into != nullptr ? into : slot(message) + kHeaderBytes;
  fetches_[message % slots_] = payloads_->receive(to, header(message).bytes, region);
}

uint64_t Connection::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (bytes > 0 && data != staging()) std::memcpy(staging(), data, bytes);
  const bool apart = payloads_ != nullptr && bytes > 0;
  payloadOf_[written_ % slots_] = apart ? payloads_->send(staging(), bytes, nullptr) : 0;
  write({bytes, call, written_ + 1, apart ? 1U : 0U});
  return written_;
}

uint64_t Connection::lend(const std::byte* data, size_t bytes, const Fingerprint& call, const Region& region) {
  payloadOf_[written_ % slots_] = payloads_->send(data, bytes, &region);
  write({bytes, call, written_ + 1, 1});
  return written_;
}

// An end that closes says so before its messages may have come.
void Connection::lookAtStream() {
  auto* const end = reinterpret_cast<std::byte*>(&theirEnd_);
  std::byte more;
  while (!gone_) {
    const bool whole = isTold();
    const ssize_t got =
        recv(stream_.get(), whole ? &more : end + told_, whole ? 1 : sizeof theirEnd_ - told_, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    gone_ = got <= 0 || whole;
    if (!gone_) told_ += static_cast<size_t>(got);
    const bool told = !gone_ && isTold();
    if (told && !canBe(theirEnd_, written_)) {
      gone_ = deaf_ = true;
      fail(remoteError(ErrorCode::Malformed, who(), " says what cannot be of the messages between the two ends"));
    }
    if (gone_ && !whole) theirEnd_ = {};
    if (!gone_ && !told) continue;
    if (!gone_) sayEnd();
    fail(remoteError(ErrorCode::PeerClosed, who(), " has closed its end"));
  }
}

// Where the peer has ended, that is the reason.  The peer hears of a failure when this end closes, or before from the
// control plane: sooner, and it would blame this end before this one has said what its plugin had to say.
void Connection::failed(const char* call, Code code) {
  const std::string complaint = Plugin::complaint(call, code);
  if (trouble_.ok()) lookAtStream();
  fail(remoteError(ErrorCode::ConnectionLost, who(), ": ", complaint));
}

void Connection::fail(Status why) {
  if (!trouble_.ok()) return;
  trouble_ = std::move(why);
  TUTTI_DEBUG("ncclnet", trouble_.message());
  while (driveReceives()) {  // what is there counts
  }
}

void Connection::end() {
  mute_ = deaf_ = true;
  if (payloads_ != nullptr) payloads_->close();
  fail(invalidUsage(ErrorCode::Finalized, "the requests of the connection to rank ", peer_, " have been cancelled"));
  shutdown(stream_.get(), SHUT_RDWR);
}

}  // namespace tutti::ncclnet
