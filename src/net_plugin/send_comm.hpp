// The sending end: sends wait for a grant of the receiver's, and leave in the order in which they found one.
#pragma once

#include <deque>
#include <list>

#include "src/net_plugin/comm.hpp"

namespace tutti::net_plugin {

class SendComm final : public Comm {
 public:
  explicit SendComm(std::unique_ptr<Link> link) : Comm(std::move(link)) {}
  ~SendComm() override;
  bool sends() const override { return true; }
  /// Null: there is no grant with this tag yet, or too much is under way.  data is borrowed until it is done.
  /// Errors: InvalidUsage: larger than what the receiver has posted; the comm's failure.
  Result<Work*> send(const void* data, size_t bytes, int tag);
  void forget(Work* work) override;

 private:
  struct Send : Work {
    using Work::Work;
    Head head;
    const std::byte* data = nullptr;
    bool headBegun = false;
    size_t begun = 0;  // bytes of the payload
    std::deque<Link::Passing> passing;
  };
  /// Of the receiver's, with the buffers that have been taken.
  struct Open {
    Grant grant;
    std::array<bool, kMostGrouped> taken{};
    size_t left = 0;
  };
  Status advance() override;
  Status hearGrants();
  std::optional<size_t> findTag(int tag) const;
  Result<bool> begin(Send* send);
  Status test(Send* send);

  Grant coming_;
  std::deque<Open> grants_;  // the oldest first
  std::list<Send> sends_;
  std::deque<Send*> line_;  // that have yet to leave
};

}  // namespace tutti::net_plugin
