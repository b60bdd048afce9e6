#include "src/comm/registrations.hpp"

#include <algorithm>

#include "src/base/log.hpp"

namespace tutti {

Result<Registrations::Range> Registrations::registered(const Memory& memory) const {
  Range range{memory, {}};
  for (const auto& [transport, kinds] : told_) {
    if (memory.bytes == 0 || !kinds.has(memory.kind)) continue;
    Result<std::unique_ptr<MemoryRegistration>> kept = transport->registerMemory(memory);
    if (!kept.ok() && memory.kind == MemoryKind::Device) {
      if (!toldOfDevice_.exchange(true))
        TUTTI_INFO("comm", "registered memory of the device is staged: transport ", transport->name(), ": ",
                   kept.status().message());
      continue;
    }
    if (!kept.ok()) {
      return Status(kept.status().code(), cat("transport ", transport->name(), " cannot register ", memory.bytes,
                                              " bytes of memory: ", kept.status().text()));
    }
    if (*kept != nullptr) range.kept.push_back(std::move(*kept));
  }
  return range;
}

Result<void*> Registrations::add(const Memory& memory) {
  TUTTI_ASSIGN(Range range, registered(memory));
  const std::lock_guard lock(mutex_);
  ranges_.emplace(next_, std::move(range));
  return reinterpret_cast<void*>(next_++);
}

bool Registrations::has(void* handle) const {
  const std::lock_guard lock(mutex_);
  return ranges_.contains(reinterpret_cast<uintptr_t>(handle));
}

Status Registrations::remove(void* handle) {
  const std::lock_guard lock(mutex_);
  if (ranges_.erase(reinterpret_cast<uintptr_t>(handle)) == 1) return {};
  return invalidArgument(ErrorCode::Registration,
                         "handle is not a registration of this communicator (or was removed already)");
}

void Registrations::use(const void* data, size_t bytes) {
  if (told_.empty()) return;
  const std::lock_guard lock(mutex_);
  if (const uint64_t frees = hostFrees(); frees != std::exchange(frees_, frees)) {
    std::erase_if(allocated_, [](const auto& entry) { return !hostAlive(entry.first); });
  }
  const std::optional<HostSpan> span = bytes > 0 ? hostLookup(data, bytes) : std::nullopt;
  if (!span || allocated_.contains(span->id)) return;
  auto* const base = const_cast<std::byte*>(static_cast<const std::byte*>(data)) - span->offset;
  const Memory whole{MemoryKind::Host, -1, base, span->allocated};
  Result<Range> range = registered(whole);
  if (!range.ok()) TUTTI_INFO("comm", range.status().message());
  allocated_.emplace(span->id, range.ok() ? std::move(*range) : Range{whole, {}});
}

void Registrations::clear() {
  const std::lock_guard lock(mutex_);
  ranges_.clear();
  allocated_.clear();
  told_.clear();
}

}  // namespace tutti
