#include "src/comm/registrations.hpp"

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"

namespace tutti {

namespace {

std::unique_ptr<Adoption> adopted(const Memory& memory) {
  Result<std::unique_ptr<Adoption>> adoption = Adoption::of(memory.base, memory.bytes);
  if (adoption.ok()) return std::move(*adoption);
  TUTTI_INFO("comm", "registered memory at ", static_cast<const void*>(memory.base), " of ", memory.bytes,
             " bytes is not mapped by peers: ", adoption.status().message());
  return nullptr;
}

}  // namespace

Status Registrations::registerWithAll(Range* range) const {
  const Memory& memory = range->memory;
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
    if (*kept != nullptr) range->kept.push_back(std::move(*kept));
  }
  return {};
}

Result<void*> Registrations::add(const Memory& memory, bool adopts) {
  Range range{memory, nullptr, {}};
  // First, for adapters pin the pages that they find.
  if (adopts && memory.bytes != 0) range.adoption = adopted(memory);
  if (Status registered = registerWithAll(&range); !registered.ok()) {
    range.kept.clear();
    if (range.adoption) range.adoption->giveBack();
    return registered;
  }
  const std::lock_guard lock(mutex_);
  ranges_.emplace(next_, std::move(range));
  return reinterpret_cast<void*>(next_++);
}

bool Registrations::has(void* handle) const {
  const std::lock_guard lock(mutex_);
  return ranges_.contains(reinterpret_cast<uintptr_t>(handle));
}

Status Registrations::remove(void* handle) {
  Range range;
  {
    const std::lock_guard lock(mutex_);
    auto found = ranges_.extract(reinterpret_cast<uintptr_t>(handle));
    if (found.empty())
      return invalidArgument(ErrorCode::Registration,
                             "handle is not a registration of this communicator, or was removed already; pass what "
                             "tuttiCommRegister gave, once");
    range = std::move(found.mapped());
  }
  range.kept.clear();
  if (range.adoption) range.adoption->giveBack();
  return {};
}

void Registrations::use(const void* data, size_t bytes) {
  if (told_.empty()) return;
  // Most memory of programs is none of ours, and takes no lock.
  if (!hostMayHold(data) && hostFrees() == frees_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  if (const uint64_t frees = hostFrees(); frees != frees_.exchange(frees, std::memory_order_relaxed)) {
    std::erase_if(allocated_, [](const auto& entry) { return !hostAlive(entry.first); });
  }
  const std::optional<HostSpan> span = bytes > 0 ? hostLookup(data, bytes) : std::nullopt;
  if (!span || span->adopted || allocated_.contains(span->id)) return;
  auto* const base = const_cast<std::byte*>(static_cast<const std::byte*>(data)) - span->offset;
  Range whole{{MemoryKind::Host, -1, base, span->allocated}, nullptr, {}};
  if (const Status registered = registerWithAll(&whole); !registered.ok()) {
    TUTTI_INFO("comm", registered.message());
    whole.kept.clear();
  }
  allocated_.emplace(span->id, std::move(whole));
}

void Registrations::clear() {
  const std::lock_guard lock(mutex_);
  ranges_.clear();
  allocated_.clear();
  told_.clear();
}

}  // namespace tutti
