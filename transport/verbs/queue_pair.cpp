#include "transport/verbs/queue_pair.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>

namespace tutti::verbs {
namespace {

constexpr uint32_t kMostInlineBytes = 256;
constexpr uint8_t kForEver = 7;         // retries of a receiver that is not ready; ours always is
constexpr uint8_t kReceiverPause = 12;  // 0.64 ms

uint8_t readsOf(int most) { return static_cast<uint8_t>(std::clamp(most, 1, 16)); }

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(Owner* owner, Completions& completions, uint32_t rail,
                                                     uint32_t receives, const Options& options) {
  std::unique_ptr<QueuePair> made(new QueuePair(owner, completions, rail));
  TUTTI_TRY(made->open(receives, options));
  return made;
}

QueuePair::~QueuePair() {
  if (pair_ != nullptr) device_->api().destroyQp(pair_);
  if (listener_) completions_.remove(*listener_);
}

// Adapters say what they take inline by refusing more.
Status QueuePair::open(uint32_t receives, const Options& options) {
  TUTTI_ASSIGN(listener_, completions_.add(this, rail_, static_cast<int>(receives + kDepth)));
  if (device_->isRoutedAdaptively()) adaptiveAbove_ = options.adaptiveAbove;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions_.queue(rail_);
  wanted.qp_type = IBV_QPT_RC;
  for (uint32_t bytes = kMostInlineBytes;; bytes /= 2) {
    wanted.cap = {.max_send_wr = kDepth,
                  .max_recv_wr = receives,
                  .max_send_sge = 2,
                  .max_recv_sge = 1,
                  .max_inline_data = bytes < 32 ? 0 : bytes};
    pair_ = device_->api().createQp(device_->domain(), &wanted);
    if (pair_ != nullptr || bytes < 32) break;
  }
  if (pair_ == nullptr)
    return errnoError(ErrorCode::AdapterRefused, errno, cat(device_->name(), " gives no queue pair"));
  inlineBytes_ = wanted.cap.max_inline_data;
  TUTTI_TRY(toInit(options));
  for (uint32_t i = 0; i < receives; ++i) TUTTI_TRY(postReceives(1));
  return {};
}

Status QueuePair::toInit(const Options& options) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_->port();
  attributes.pkey_index = static_cast<uint16_t>(options.partition);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const int error =
      device_->api().modifyQp(pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? Status()
                    : errnoError(ErrorCode::AdapterRefused, error, cat(device_->name(), " cannot set up a queue pair"));
}

void QueuePair::describe(const Device& device, RailCard* card) {
  card->localId = device.portAttributes().lid;
  card->mtu = static_cast<uint8_t>(device.mtu());
  card->ethernet = device.isEthernet() ? 1 : 0;
  card->readsServed = readsOf(device.attributes().max_qp_rd_atom);
  card->gid = device.gid().raw;
}

Status QueuePair::connect(const ConnectionCard& mine, const ConnectionCard& theirs, uint32_t peerNumber,
                          const Options& options) {
  const RailCard& here = mine.rail[rail_];
  const RailCard& there = theirs.rail[rail_];
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = static_cast<ibv_mtu>(std::min(here.mtu, there.mtu));
  to.dest_qp_num = peerNumber;
  to.rq_psn = theirs.packetNumber;
  to.max_dest_rd_atomic = static_cast<uint8_t>(here.readsServed);
  to.min_rnr_timer = kReceiverPause;
  to.ah_attr.dlid = there.localId;
  to.ah_attr.sl = static_cast<uint8_t>(options.serviceLevel);
  to.ah_attr.port_num = device_->port();
  // InfiniBand needs addresses only to leave the subnet, or where the port has no LID.
  const bool otherSubnet = there.gid.global.subnet_prefix != here.gid.global.subnet_prefix;
  if (device_->isEthernet() || otherSubnet || there.localId == 0) {
    to.ah_attr.is_global = 1;
    to.ah_attr.grh.dgid = there.gid;
    to.ah_attr.grh.sgid_index = static_cast<uint8_t>(device_->gid().index);
    to.ah_attr.grh.hop_limit = 255;
    to.ah_attr.grh.traffic_class = static_cast<uint8_t>(options.trafficClass);
  }
  const Library& api = device_->api();
  if (const int error = api.modifyQp(pair_, &to,
                                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
      error != 0) {
    const Gid peer{.raw = there.gid};
    return errnoError(ErrorCode::AdapterRefused, error,
                      cat(device_->name(), " (", device_->gid().text(), ") has no way to ", peer.text()));
  }
  return toSend(mine, theirs, options);
}

Status QueuePair::toSend(const ConnectionCard& mine, const ConnectionCard& theirs, const Options& options) {
  const RailCard& there = theirs.rail[rail_];
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTS;
  to.timeout = static_cast<uint8_t>(options.timeout);
  to.retry_cnt = static_cast<uint8_t>(options.retries);
  to.rnr_retry = kForEver;
  to.sq_psn = mine.packetNumber;
  to.max_rd_atomic =
      std::min(readsOf(static_cast<int>(there.readsServed)), readsOf(device_->attributes().max_qp_init_rd_atom));
  const int error = device_->api().modifyQp(
      pair_, &to,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  const Gid peer{.raw = there.gid};
  return error == 0
             ? Status()
             : errnoError(ErrorCode::AdapterRefused, error, cat(device_->name(), " cannot send to ", peer.text()));
}

// Of a chain the last reports, for those before it as well.
Status QueuePair::post(ibv_send_wr* work, uint32_t count, bool reports) {
  ibv_send_wr* last = work;
  while (last->next != nullptr) last = last->next;
  if (reports || posted_ + count - reported_ >= kQuiet) {
    last->send_flags |= IBV_SEND_SIGNALED;
    reported_ = posted_ + count;
  }
  last->wr_id = workId(*listener_, static_cast<uint32_t>(posted_ + count) & kCounterBits);
  if (last != work) work->wr_id = last->wr_id;  // of errors alone
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair_, work, &bad);
  if (error != 0)
    return errnoError(ErrorCode::AdapterRefused, error, cat(device_->name(), " takes no more operations"));
  posted_ += count;
  return {};
}

// Where switches route adaptively only what comes without the 32 bits may take several ways.
Status QueuePair::write(std::span<const Piece> pieces, const Place& to, std::optional<uint32_t> immediate) {
  ibv_sge list[2];
  int count = 0;
  size_t bytes = 0;
  for (const Piece& piece : pieces) {
    if (piece.bytes == 0) continue;
    list[count++] = {reinterpret_cast<uint64_t>(piece.data), static_cast<uint32_t>(piece.bytes), piece.key};
    bytes += piece.bytes;
  }
  ibv_send_wr work{};
  work.sg_list = list;
  work.num_sge = count;
  work.opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  work.send_flags = bytes > 0 && bytes <= inlineBytes_ ? IBV_SEND_INLINE : 0;
  work.imm_data = htonl(immediate.value_or(0));
  work.wr.rdma = {to.address, to.key};
  if (bytes <= adaptiveAbove_ || !immediate) return post(&work, 1, false);
  ibv_send_wr after = work;
  after.sg_list = nullptr;
  after.num_sge = 0;
  after.send_flags = 0;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.next = &after;
  return post(&work, 2, false);
}

Status QueuePair::read(const Piece& into, const Place& from, uint32_t mark) {
  ibv_sge list{reinterpret_cast<uint64_t>(into.data), static_cast<uint32_t>(into.bytes), into.key};
  ibv_send_wr work{};
  work.sg_list = &list;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.wr.rdma = {from.address, from.key};
  TUTTI_TRY(post(&work, 1, true));
  reads_.push_back({posted_, mark});
  return {};
}

Result<uint64_t> QueuePair::flush() { return reported_ == posted_ ? Result<uint64_t>(posted_) : askForAnswer(); }

Result<uint64_t> QueuePair::askForAnswer() {
  ibv_send_wr work{};
  work.opcode = IBV_WR_RDMA_WRITE;  // of nothing
  TUTTI_TRY(post(&work, 1, true));
  return posted_;
}

/// At most kReceivesAtOnce.
Status QueuePair::postReceives(uint32_t count) {
  ibv_recv_wr work[kReceivesAtOnce];
  for (uint32_t i = 0; i < count; ++i) {
    work[i] = {};
    work[i].wr_id = workId(*listener_, kReceiveWork);
    work[i].next = i + 1 < count ? &work[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(pair_, work, &bad);
  return error == 0 ? Status()
                    : errnoError(ErrorCode::AdapterRefused, error, cat(device_->name(), " takes no more receives"));
}

void QueuePair::came(uint32_t immediate) {
  owner_->came(immediate);
  if (++received_ < kReceivesAtOnce) return;
  received_ = 0;
  if (const Status status = postReceives(kReceivesAtOnce); !status.ok()) owner_->failed(rail_, status.message());
}

void QueuePair::finished(uint32_t low) {
  if (const auto operation = widen(low, done_, kDepth)) done_ = *operation;
  while (!reads_.empty() && reads_.front().operation <= done_) {
    owner_->fetched(reads_.front().mark);
    reads_.pop_front();
  }
}

}  // namespace tutti::verbs
