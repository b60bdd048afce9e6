// The receiving end: receives are granted to the sender in the order of their posts, and what comes goes to its place.
#pragma once

#include <deque>
#include <list>
#include <span>

#include "src/net_plugin/comm.hpp"

namespace tutti::net_plugin {

class ReceiveComm final : public Comm {
 public:
  struct Buffer {
    void* data = nullptr;
    size_t bytes = 0;  // at most
    int tag = 0;
  };
  explicit ReceiveComm(std::unique_ptr<Link> link) : Comm(std::move(link)) {}
  bool sends() const override { return false; }
  /// Of 1 to kMostGrouped buffers, borrowed until it is done.  Null: too much is under way.
  /// Errors: the comm's failure.
  Result<Work*> receive(std::span<const Buffer> buffers);
  void forget(Work* work) override;

 private:
  struct Receive : Work {
    using Work::Work;
    Grant grant;
    Link::Passing told;  // the grant
    std::array<std::byte*, kMostGrouped> data{};
    std::array<bool, kMostGrouped> came{};
    size_t left = 0;
  };
  Status advance() override;
  Status grant();
  Status takeHead();
  Result<bool> takePayload();
  void arrived();

  uint32_t granted_ = 0;
  std::list<Receive> receives_;
  std::deque<Receive*> untold_;  // whose grants have yet to leave
  // The message that comes: its head, and of a payload how much is begun.
  Head head_;
  Receive* into_ = nullptr;
  size_t begun_ = 0;
  std::deque<Link::Passing> passing_;
};

}  // namespace tutti::net_plugin
