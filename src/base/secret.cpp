#include "src/base/secret.hpp"

#include <string.h>  // explicit_bzero
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "src/base/random.hpp"

namespace tutti {

struct Secret::Bytes {
  unsigned char value[kBytes];
};

namespace {

/// Pages for keys alone.  Process-wide and never given back: keys may be made and go while static objects do.
class KeyRoom {
 public:
  static KeyRoom& instance() {
    static KeyRoom* room = new KeyRoom;
    return *room;
  }
  void* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) addPage();
    void* const place = free_.back();
    free_.pop_back();
    return place;
  }
  void giveBack(void* place) {
    wipe(place, Secret::kBytes);
    const std::lock_guard lock(mutex_);
    free_.push_back(place);
  }

 private:
  // The advice is only that: where the system refuses it, the key is as exposed as any other memory.
  void addPage() {
    const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* const page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::bad_alloc();
    (void)::madvise(page, bytes, MADV_DONTDUMP);
    (void)::mlock(page, bytes);
    free_.reserve(free_.size() + bytes / Secret::kBytes);
    for (size_t at = 0; at < bytes; at += Secret::kBytes) free_.push_back(static_cast<unsigned char*>(page) + at);
  }

  std::mutex mutex_;
  std::vector<void*> free_;
};

constexpr unsigned char kZero[Secret::kBytes] = {};

}  // namespace

void wipe(void* memory, size_t bytes) { explicit_bzero(memory, bytes); }

std::shared_ptr<Secret::Bytes> Secret::place() {
  KeyRoom& room = KeyRoom::instance();
  return {new (room.take()) Bytes, [&room](Bytes* bytes) { room.giveBack(bytes); }};
}

Secret::Secret(std::initializer_list<unsigned char> first) : bytes_(place()) {
  std::fill_n(bytes_->value, kBytes, static_cast<unsigned char>(0));
  std::copy_n(first.begin(), std::min(first.size(), kBytes), bytes_->value);
}

Secret::Secret(std::span<const unsigned char, kBytes> bytes) : bytes_(place()) {
  std::copy_n(bytes.begin(), kBytes, bytes_->value);
}

Secret Secret::random() {
  Secret secret;
  secret.bytes_ = place();
  fillRandom(std::as_writable_bytes(std::span(secret.bytes_->value)));
  return secret;
}

const unsigned char* Secret::data() const { return bytes_ == nullptr ? kZero : bytes_->value; }

bool operator==(const Secret& a, const Secret& b) {
  unsigned different = 0;
  for (size_t i = 0; i < Secret::kBytes; ++i) {
    different |= static_cast<unsigned>(a.data()[i] ^ b.data()[i]);
    __asm__ volatile("" : "+r"(different));  // the compiler may not leave the loop early
  }
  return different == 0;
}

}  // namespace tutti
