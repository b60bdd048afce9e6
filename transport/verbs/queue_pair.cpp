#include "transport/verbs/queue_pair.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>

#include "src/base/clock.hpp"

namespace tutti::verbs {
namespace {

constexpr uint32_t kMostInlineBytes = 256;
constexpr uint8_t kForEver = 7;         // retries of a receiver that is not ready; ours always is
constexpr uint8_t kReceiverPause = 12;  // 0.64 ms

uint8_t readsOf(int most) { return static_cast<uint8_t>(std::clamp(most, 1, 16)); }

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(std::shared_ptr<Device> device, Completions& completions,
                                                     uint32_t number, uint32_t receives) {
  std::unique_ptr<QueuePair> made(new QueuePair(std::move(device), number));
  TUTTI_TRY(made->open(completions, receives));
  return made;
}

QueuePair::~QueuePair() {
  if (pair_ != nullptr) device_->api().destroyQp(pair_);
}

// Adapters say what they take inline by refusing more.
Status QueuePair::open(Completions& completions, uint32_t receives) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions.queue();
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
  if (pair_ == nullptr) return errnoError(errno, cat(device_->name(), " gives no queue pair"));
  inlineBytes_ = wanted.cap.max_inline_data;
  TUTTI_TRY(toInit());
  for (uint32_t i = 0; i < receives; ++i) TUTTI_TRY(postReceive());
  return {};
}

Status QueuePair::toInit() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = device_->port();
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const int error =
      device_->api().modifyQp(pair_, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  return error == 0 ? Status() : errnoError(error, cat(device_->name(), " cannot set up a queue pair"));
}

void QueuePair::describe(ConnectionCard* card) const {
  card->queuePair = pair_->qp_num;
  card->packetNumber = static_cast<uint32_t>(nowNs()) & 0xffffff;  // differs from an earlier connection's
  card->localId = device_->portAttributes().lid;
  card->mtu = static_cast<uint8_t>(device_->mtu());
  card->ethernet = device_->isEthernet() ? 1 : 0;
  card->readsServed = readsOf(device_->attributes().max_qp_rd_atom);
  card->gid = device_->gid().raw;
}

Status QueuePair::connect(const ConnectionCard& mine, const ConnectionCard& theirs, const Options& options) {
  ibv_qp_attr to{};
  to.qp_state = IBV_QPS_RTR;
  to.path_mtu = static_cast<ibv_mtu>(std::min(mine.mtu, theirs.mtu));
  to.dest_qp_num = theirs.queuePair;
  to.rq_psn = theirs.packetNumber;
  to.max_dest_rd_atomic = static_cast<uint8_t>(mine.readsServed);
  to.min_rnr_timer = kReceiverPause;
  to.ah_attr.dlid = theirs.localId;
  to.ah_attr.sl = static_cast<uint8_t>(options.serviceLevel);
  to.ah_attr.port_num = device_->port();
  // InfiniBand needs addresses only to leave the subnet, or where the port has no LID.
  const bool otherSubnet = theirs.gid.global.subnet_prefix != mine.gid.global.subnet_prefix;
  if (device_->isEthernet() || otherSubnet || theirs.localId == 0) {
    to.ah_attr.is_global = 1;
    to.ah_attr.grh.dgid = theirs.gid;
    to.ah_attr.grh.sgid_index = static_cast<uint8_t>(device_->gid().index);
    to.ah_attr.grh.hop_limit = 255;
    to.ah_attr.grh.traffic_class = static_cast<uint8_t>(options.trafficClass);
  }
  const Library& api = device_->api();
  const Gid there{.raw = theirs.gid};
  if (const int error = api.modifyQp(pair_, &to,
                                     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
      error != 0) {
    return errnoError(error, cat(device_->name(), " (", device_->gid().text(), ") has no way to ", there.text()));
  }
  to.qp_state = IBV_QPS_RTS;
  to.timeout = static_cast<uint8_t>(options.timeout);
  to.retry_cnt = static_cast<uint8_t>(options.retries);
  to.rnr_retry = kForEver;
  to.sq_psn = mine.packetNumber;
  to.max_rd_atomic =
      std::min(readsOf(static_cast<int>(theirs.readsServed)), readsOf(device_->attributes().max_qp_init_rd_atom));
  const int error = api.modifyQp(
      pair_, &to,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  return error == 0 ? Status() : errnoError(error, cat(device_->name(), " cannot send to ", there.text()));
}

Status QueuePair::post(ibv_send_wr* work, bool reports) {
  if (reports || posted_ + 1 - reported_ >= kQuiet) {
    work->send_flags |= IBV_SEND_SIGNALED;
    reported_ = posted_ + 1;
  }
  work->wr_id = workId(number_, static_cast<uint32_t>(posted_ + 1) & kCounterBits);
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(pair_, work, &bad);
  if (error != 0) return errnoError(error, cat(device_->name(), " takes no more operations"));
  ++posted_;
  return {};
}

Status QueuePair::write(std::span<const Piece> pieces, const Place& to, uint32_t immediate) {
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
  work.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  work.send_flags = bytes > 0 && bytes <= inlineBytes_ ? IBV_SEND_INLINE : 0;
  work.imm_data = htonl(immediate);
  work.wr.rdma = {to.address, to.key};
  return post(&work, false);
}

Result<uint64_t> QueuePair::read(const Piece& into, const Place& from) {
  ibv_sge list{reinterpret_cast<uint64_t>(into.data), static_cast<uint32_t>(into.bytes), into.key};
  ibv_send_wr work{};
  work.sg_list = &list;
  work.num_sge = 1;
  work.opcode = IBV_WR_RDMA_READ;
  work.wr.rdma = {from.address, from.key};
  TUTTI_TRY(post(&work, true));
  return posted_;
}

Result<uint64_t> QueuePair::flush() {
  if (reported_ == posted_) return posted_;
  ibv_send_wr work{};
  work.opcode = IBV_WR_RDMA_WRITE;  // of nothing
  TUTTI_TRY(post(&work, true));
  return posted_;
}

Status QueuePair::postReceive() {
  ibv_recv_wr work{};
  work.wr_id = workId(number_, kReceiveWork);
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(pair_, &work, &bad);
  return error == 0 ? Status() : errnoError(error, cat(device_->name(), " takes no more receives"));
}

void QueuePair::finished(uint32_t low) {
  if (const auto operation = widen(low, done_, kDepth)) done_ = *operation;
}

}  // namespace tutti::verbs
