#include "src/comm/abort_state.hpp"

#include <algorithm>

#include "src/comm/handle.hpp"

namespace tutti {

void AbortState::stop() {
  stopped_.store(1, std::memory_order_release);
  word_.store(1, std::memory_order_release);
  parking_.dropAll();
}

void AbortState::end(const Status& why) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_.ok()) failure_ = why;
    if (atEnd_) atEnd_();
  }
  word_.store(1, std::memory_order_release);
  parking_.dropAll();
}

bool AbortState::renew() {
  {
    const std::lock_guard lock(mutex_);
    failure_ = childrensEnd_ = Status();
    word_.store(0, std::memory_order_release);
  }
  if (stopped_.load(std::memory_order_acquire) != 0) stop();
  return !ended();
}

Status AbortState::failure() const {
  if (!ended()) return {};
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return failure_;
  return remoteError(ErrorCode::Aborted, "this communicator was aborted");
}

Status AbortState::reason() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void AbortState::onEnd(std::function<void()> atEnd) {
  const std::lock_guard lock(mutex_);
  atEnd_ = std::move(atEnd);
  if (atEnd_ && !failure_.ok()) atEnd_();
}

// Parents are locked before children.
void AbortState::endJoins(const Status& why) {
  const std::lock_guard lock(mutex_);
  if (!joinsEnd_.ok()) return;
  joinsEnd_ = {why.code(), cat(why.text(), " (by its rank in the parent, while ranks were joining the child)")};
  for (AbortState* join : joins_) join->end(joinsEnd_);
}

Status AbortState::joinsEnd() const {
  const std::lock_guard lock(mutex_);
  return joinsEnd_;
}

void AbortState::enterJoin(AbortState* join) {
  const std::lock_guard lock(mutex_);
  joins_.push_back(join);
  if (!joinsEnd_.ok()) join->end(joinsEnd_);
}

void AbortState::leaveJoin(AbortState* join) {
  const std::lock_guard lock(mutex_);
  std::erase(joins_, join);
}

void AbortState::adopt(tuttiComm* child) {
  Status over;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(children_, [](const auto& c) { return c->abortState.barren(); });
    children_.push_back(child->shared_from_this());
    over = childrensEnd_;
  }
  if (!over.ok()) child->abortState.end(over);
}

/// Gone, and so are its children: its handle is of no use to a parent.
bool AbortState::barren() {
  if (!closed_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(mutex_);  // parents before children
  std::erase_if(children_, [](const auto& c) { return c->abortState.barren(); });
  return children_.empty();
}

std::vector<std::shared_ptr<tuttiComm>> AbortState::children() const {
  const std::lock_guard lock(mutex_);
  return children_;
}

void AbortState::endFamily(const Status& why) {
  endChildren(endWithParent(why));
  end(why);
}

void AbortState::endChildren(const Status& why) {
  if (released_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard lock(mutex_);
    if (childrensEnd_.ok()) childrensEnd_ = why;
  }
  for (const std::shared_ptr<tuttiComm>& child : children()) {
    child->abortState.endChildren(why);
    child->abortState.end(why);
  }
}

void AbortState::tellChildren(const Status& why) {
  if (released_.load(std::memory_order_relaxed)) return;
  for (const std::shared_ptr<tuttiComm>& child : children()) {
    if (const Result<CommUse> comm = use(child.get()); comm.ok()) (*comm)->tell(why);
    child->abortState.tellChildren(why);
  }
}

Status endWithParent(const Status& why) {
  constexpr std::string_view kParent = " that this one was split from";
  const std::string_view text = why.message();  // of an ancestor's end, where a child passes it on to its own
  if (text.find(kParent) != std::string_view::npos) return why;
  const size_t remedy = std::min(text.find(';'), text.size());
  return Status(why.code(), why.kind(), cat(text.substr(0, remedy), kParent, text.substr(remedy)));
}

}  // namespace tutti
