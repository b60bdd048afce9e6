#include "transport/ncclnet/payloads.hpp"

#include <utility>

#include "src/base/log.hpp"

namespace tutti::ncclnet {
namespace {

using Lock = std::lock_guard<std::mutex>;

}  // namespace

Status Payloads::registerSlots(std::byte* from, std::byte* to, size_t bytes) {
  const Lock lock(mutex_);
  Net& net = comms_.net();
  Code code = net.regMr(comms_.sending(), from, bytes, kHostMemory, &slots_.toSend);
  if (code == kSuccess) code = net.regMr(comms_.receiving(), to, bytes, kHostMemory, &slots_.toReceive);
  if (code == kSuccess) return {};
  return systemError(ErrorCode::CannotRegister, comms_.plugin().describe(), " cannot register ", bytes,
                     " bytes: ", Plugin::complaint("regMr", code));
}

Code Payloads::registerWith(void* comm, const Region& region, void** memory) const {
  const Memory& all = region.memory();
  Net& net = comms_.net();
  if (!region.buffer())
    return net.regMr(comm, all.base, all.bytes, region.onDevice() ? kCudaMemory : kHostMemory, memory);
  return net.regMrDmaBuf(comm, all.base, all.bytes, region.buffer()->offset, region.buffer()->fd.get(), memory);
}

// What could not be registered is not tried again: its entry has no handles.
bool Payloads::takes(const std::shared_ptr<Region>& region) {
  {
    const Lock lock(mutex_);
    if (closed_) return false;
    const auto known = regions_.find(region.get());
    if (known != regions_.end()) return known->second.toSend != nullptr;
    Registered both;
    Code code = registerWith(comms_.sending(), *region, &both.toSend);
    if (code == kSuccess) code = registerWith(comms_.receiving(), *region, &both.toReceive);
    if (code != kSuccess) {
      const std::string why = Plugin::complaint(region->buffer() ? "regMrDmaBuf" : "regMr", code);
      if (both.toSend != nullptr) comms_.tell("deregMr", comms_.net().deregMr(comms_.sending(), both.toSend));
      both = {};
      if (!std::exchange(refused_, true))
        TUTTI_WARN("ncclnet", comms_.who(), ": messages pass through the host, as ", region->memory().bytes,
                   " bytes of the device's memory cannot be registered: ", why);
    }
    regions_.emplace(region.get(), both);
    if (code != kSuccess) return false;
  }
  region->usedBy(weak_from_this());
  return true;
}

void Payloads::deregister(const Registered& both) {
  Net& net = comms_.net();
  if (both.toSend != nullptr) comms_.tell("deregMr", net.deregMr(comms_.sending(), both.toSend));
  if (both.toReceive != nullptr) comms_.tell("deregMr", net.deregMr(comms_.receiving(), both.toReceive));
}

void Payloads::forget(const Region& region) {
  const Lock lock(mutex_);
  const auto known = regions_.find(&region);
  if (known == regions_.end()) return;
  deregister(known->second);
  regions_.erase(known);
}

void Payloads::close() {
  const Lock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  deregister(std::exchange(slots_, {}));
  for (const auto& [region, both] : regions_) deregister(both);
  regions_.clear();
  comms_.close();
  sends_.clear();
  receives_.clear();
  startedSends_ = startedReceives_ = 0;
}

/// Nothing, of what has been given up.
Payloads::Registered Payloads::find(const Region* region) const {
  if (region == nullptr) return slots_;
  const auto known = regions_.find(region);
  return known == regions_.end() ? Registered() : known->second;
}

uint64_t Payloads::send(const std::byte* data, size_t bytes, const Region* region) {
  const Lock lock(mutex_);
  sends_.push_back({const_cast<std::byte*>(data), bytes, find(region).toSend, region != nullptr && region->onDevice()});
  return sent_ + sends_.size();
}

uint64_t Payloads::receive(std::byte* into, size_t bytes, const Region* region) {
  const Lock lock(mutex_);
  receives_.push_back({into, bytes, find(region).toReceive, region != nullptr && region->onDevice()});
  return received_ + receives_.size();
}

bool Payloads::drive() {
  const Lock lock(mutex_);
  if (closed_) return false;
  const bool sent = driveSends();
  return driveReceives() || sent;
}

/// Has the plugin begin as many as it takes.
bool Payloads::start(Fifo<Transfer>* all, size_t* started, bool sends, Status* trouble) {
  bool moved = false;
  while (trouble->ok() && *started < all->size() && *started < kMostRequests) {
    Transfer& next = (*all)[*started];
    Net& net = comms_.net();
    const Code code = sends ? net.isend(comms_.sending(), next.data, next.bytes, next.memory, &next.request)
                            : net.irecv(comms_.receiving(), next.data, next.bytes, next.memory, &next.request);
    if (code != kSuccess)
      *trouble = remoteError(ErrorCode::ConnectionLost, comms_.who(), ": ",
                             Plugin::complaint(sends ? "isend" : "irecv", code));
    if (code != kSuccess || next.request == nullptr) break;
    ++*started;
    moved = true;
  }
  return moved;
}

/// Whether the first has been done by the plugin.
bool Payloads::testFront(Fifo<Transfer>* all, const char* call, Status* trouble, bool* whole) {
  int done = 0, bytes = 0;
  const Code code = comms_.net().test(all->front().request, &done, &bytes);
  if (code != kSuccess)
    *trouble = remoteError(ErrorCode::ConnectionLost, comms_.who(), ": ", Plugin::complaint(call, code));
  *whole = static_cast<size_t>(bytes) == all->front().bytes;
  return code == kSuccess && done != 0;
}

bool Payloads::driveSends() {
  bool moved = start(&sends_, &startedSends_, true, &sendingTrouble_), whole = true;
  while (sendingTrouble_.ok() && startedSends_ > 0) {
    if (!testFront(&sends_, "test of an isend", &sendingTrouble_, &whole)) break;
    sends_.pop_front();
    --startedSends_;
    ++sent_;
    moved = true;
  }
  return moved;
}

/// Gives a request, or none where nothing has to be waited for.
Code Payloads::beginFlush(Transfer* next) {
  next->request = nullptr;
  next->flushing = true;
  return comms_.net().iflush(comms_.receiving(), next->data, next->bytes, next->memory, &next->request);
}

bool Payloads::driveReceives() {
  bool moved = start(&receives_, &startedReceives_, false, &receivingTrouble_), whole = true;
  while (receivingTrouble_.ok() && startedReceives_ > 0) {
    Transfer& next = receives_.front();
    const char* const call = next.flushing ? "test of an iflush" : "test of an irecv";
    if (next.request != nullptr && !testFront(&receives_, call, &receivingTrouble_, &whole)) break;
    moved = true;
    if (!next.flushing && !whole) {
      receivingTrouble_ = remoteError(ErrorCode::DataDamaged, comms_.who(), ": a payload of ", next.bytes,
                                      " bytes came with another number of them");
      break;
    }
    if (next.onDevice && flushes_ && !next.flushing) {
      const Code code = beginFlush(&next);
      if (code != kSuccess)
        receivingTrouble_ =
            remoteError(ErrorCode::ConnectionLost, comms_.who(), ": ", Plugin::complaint("iflush", code));
      continue;
    }
    receives_.pop_front();
    --startedReceives_;
    ++received_;
  }
  return moved;
}

}  // namespace tutti::ncclnet
