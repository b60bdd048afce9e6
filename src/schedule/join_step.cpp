#include "src/schedule/join_step.hpp"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti {
namespace {

/// What a round of a step begins with, and what follows.
enum class Kind : uint8_t { Local, Send, Receive };

struct Ordered {
  size_t round;
  Kind kind;
  size_t peer;  // by first appearance in the step
  Op op;
  auto order() const { return std::tuple(round, kind, peer); }
};

/// Of one direction of a step: which message of which rank a chunk belongs to.
class Messages {
 public:
  explicit Messages(size_t most) : most_(most) {}
  /// The next chunk of the rank -> (message, the rank by first appearance).
  std::pair<size_t, size_t> next(int32_t rank) {
    auto& [peer, chunks] = peers_.try_emplace(rank, peers_.size(), size_t{0}).first->second;
    return {chunks++ / most_, peer};
  }

 private:
  size_t most_;
  std::unordered_map<int32_t, std::pair<size_t, size_t>> peers_;
};

}  // namespace

void joinStep(std::span<Op> ops, size_t most) {
  Messages sent(most), received(most);
  std::vector<Ordered> ordered;
  for (Op& op : ops) {
    const bool receives = !op.from.empty(), sends = !op.to.empty();
    const auto [message, peer] = receives ? received.next(op.from[0])
                                 : sends  ? sent.next(op.to[0])
                                          : std::pair<size_t, size_t>{0, 0};
    ordered.push_back({message, receives ? Kind::Receive : sends ? Kind::Send : Kind::Local, peer, std::move(op)});
  }
  // From the end: a copy makes room for what is received after it.
  size_t round = 0;
  for (auto p = ordered.rbegin(); p != ordered.rend(); ++p) {
    if (p->kind == Kind::Receive) round = p->round;
    if (p->kind == Kind::Local) p->round = round;
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Ordered& a, const Ordered& b) { return a.order() < b.order(); });
  for (size_t i = 0; i < ordered.size(); ++i) {
    ops[i] = std::move(ordered[i].op);
    ops[i].joined = i > 0 && ordered[i].kind != Kind::Local && ordered[i].order() == ordered[i - 1].order();
  }
}

}  // namespace tutti
