#include "src/control/circles.hpp"

#include <algorithm>

namespace tutti {

namespace {

constexpr size_t kMostPassed = 64;
constexpr size_t kMostTold = 6;  // of a circle, in its sentence

Failure circle(const std::vector<Hop>& hops) {
  std::string text = "ranks of several communicators wait for each other for ever: ";
  const size_t told = std::min(hops.size(), kMostTold);
  for (size_t i = 0; i < told; ++i) {
    const Hop& hop = hops[i];
    text += cat(i == 0 ? "" : ", which as ", "rank ", hop.rank, " of ", hop.where, " is in ", hop.text,
                " and waits for rank ", hops[(i + 1) % hops.size()].entered, " of it");
  }
  text += told == hops.size() ? ", the first of these" : cat(", the first of ", hops.size() - told, " more");
  return {-1, invalidUsage(ErrorCode::WaitInCircle, text,
                           "; all ranks must use the communicators that they share in one order")};
}

}  // namespace

void writeChain(Writer& out, const Chain& chain) {
  out.u8(chain.closed ? 1 : 0);
  out.u64(chain.number);
  out.u32(static_cast<uint32_t>(chain.hops.size()));
  for (const Hop& hop : chain.hops) {
    out.u64(hop.process);
    out.raw(hop.commId.data(), hop.commId.size());
    out.i32(hop.rank);
    out.i32(hop.entered);
    out.i32(hop.peer);
    out.u64(hop.sequence);
    out.text(std::string_view(hop.text).substr(0, kMostHopBytes));
    out.text(std::string_view(hop.where).substr(0, kMostHopBytes));
  }
}

Chain readChain(Reader& in) {
  Chain chain{.closed = in.u8() == 1};
  chain.number = in.u64();
  chain.hops.resize(in.count(52));
  for (Hop& hop : chain.hops) {
    hop.process = in.u64();
    in.raw(hop.commId.data(), hop.commId.size());
    hop.rank = in.i32();
    hop.entered = in.i32();
    hop.peer = in.i32();
    hop.sequence = in.u64();
    hop.text = in.text(kMostHopBytes);
    hop.where = in.text(kMostHopBytes);
  }
  return chain;
}

void Circles::begin(MemberId member) {
  const auto wait = hooks_.wait();
  if (wait && wait->first == member) hooks_.send(member, {false, ++begun_, {wait->second}});
}

void Circles::onChain(MemberId member, Chain chain) {
  if (chain.hops.empty() || chain.hops.size() > kMostHops) return;
  const auto wait = hooks_.wait();  // first, see above
  if (!wait) return;
  const MemberId to = wait->first;
  Hop own = wait->second;
  own.entered = hooks_.rankOf(member);
  const auto found =
      std::find_if(chain.hops.begin(), chain.hops.end(), [&](const Hop& hop) { return hop.process == own.process; });
  const bool here = found != chain.hops.end();
  if (here && !found->sameWait(own)) return;  // it has gone on since
  if (chain.closed) return here ? onClosed(to, chain) : void();
  if (!hooks_.lacks(member, chain.hops.back())) return;
  if (here) {
    found->entered = own.entered;  // of the last one's communicator
    return onClosed(to, {true, chain.number, {found, chain.hops.end()}});
  }
  const Passed passed{chain.hops.front().process, chain.number};
  const bool before = std::find(passed_.begin(), passed_.end(), passed) != passed_.end();
  if (before || chain.hops.size() == kMostHops) return;
  passed_.push_back(passed);
  if (passed_.size() > kMostPassed) passed_.pop_front();
  chain.hops.push_back(own);
  hooks_.send(to, chain);
}

/// The others first, who are told by the communicator that fails.
void Circles::onClosed(MemberId to, const Chain& chain) {
  if (hooks_.failed(to)) return;
  hooks_.send(to, chain);
  hooks_.fail(to, circle(chain.hops));
}

}  // namespace tutti
