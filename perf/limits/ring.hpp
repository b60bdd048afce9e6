// The little of io_uring that send_ways needs, by the system calls themselves.
#pragma once

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tutti::limits {

class Ring {
 public:
  Ring() {
    io_uring_params params{};
    fd_ = static_cast<int>(syscall(SYS_io_uring_setup, kEntries, &params));
    if (fd_ < 0) return;
    const size_t bytes = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
    auto* rings = static_cast<char*>(map(bytes, IORING_OFF_SQ_RING));
    entries_ = static_cast<io_uring_sqe*>(map(params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES));
    const auto word = [&](uint32_t at) { return reinterpret_cast<std::atomic<uint32_t>*>(rings + at); };
    tail_ = word(params.sq_off.tail);
    mask_ = *word(params.sq_off.ring_mask);
    array_ = reinterpret_cast<uint32_t*>(rings + params.sq_off.array);
    cqHead_ = word(params.cq_off.head);
    cqTail_ = word(params.cq_off.tail);
    cqMask_ = *word(params.cq_off.ring_mask);
    results_ = reinterpret_cast<io_uring_cqe*>(rings + params.cq_off.cqes);
  }
  ~Ring() {
    if (fd_ >= 0) ::close(fd_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// Whether this system lets us have one.
  static bool has() { return Ring().fd_ >= 0; }

  /// Put in line: all of these bytes, in as many packets as it takes.
  void send(int fd, const void* data, size_t bytes, bool zeroCopy, uint64_t name) {
    const uint32_t tail = tail_->load(std::memory_order_relaxed), at = tail & mask_;
    io_uring_sqe& entry = entries_[at];
    std::memset(&entry, 0, sizeof entry);
    entry.opcode = zeroCopy ? IORING_OP_SEND_ZC : IORING_OP_SEND;
    entry.fd = fd;
    entry.addr = reinterpret_cast<uint64_t>(data);
    entry.len = static_cast<uint32_t>(bytes);
    entry.msg_flags = MSG_NOSIGNAL | MSG_WAITALL;
    entry.user_data = name;
    array_[at] = at;
    tail_->store(tail + 1, std::memory_order_release);  // partner: the kernel's acquire
    ++inLine_;
  }
  /// Hand over what is in line; waits: until something is complete.
  void submit(bool waits) {
    if (inLine_ == 0 && !waits) return;
    const long n =
        syscall(SYS_io_uring_enter, fd_, inLine_, waits ? 1 : 0, waits ? IORING_ENTER_GETEVENTS : 0, nullptr, 0);
    if (n >= 0) inLine_ -= static_cast<uint32_t>(n);
  }
  /// tell(name, result, a notice will follow, it is that notice).
  template <class Tell>
  void completions(Tell tell) {
    uint32_t head = cqHead_->load(std::memory_order_relaxed);
    while (head != cqTail_->load(std::memory_order_acquire)) {  // partner: the kernel's release
      const io_uring_cqe& done = results_[head++ & cqMask_];
      tell(done.user_data, done.res, (done.flags & IORING_CQE_F_MORE) != 0, (done.flags & IORING_CQE_F_NOTIF) != 0);
    }
    cqHead_->store(head, std::memory_order_release);  // partner: the kernel's acquire
  }

 private:
  static constexpr uint32_t kEntries = 64;

  void* map(size_t bytes, off_t what) const {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, what);
    if (at != MAP_FAILED) return at;
    std::perror("send_ways: mmap of io_uring");
    std::exit(1);
  }

  int fd_ = -1;
  io_uring_sqe* entries_ = nullptr;
  io_uring_cqe* results_ = nullptr;
  uint32_t* array_ = nullptr;
  std::atomic<uint32_t>*tail_ = nullptr, *cqHead_ = nullptr, *cqTail_ = nullptr;
  uint32_t mask_ = 0, cqMask_ = 0, inLine_ = 0;
};

}  // namespace tutti::limits
