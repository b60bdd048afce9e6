#include "src/control/stream_dials.hpp"

#include <algorithm>

#include "src/base/assert.hpp"

namespace tutti {

std::vector<Dial*> StreamDials::dials() {
  std::vector<Dial*> all;
  for (Dial& dial : dials_) all.push_back(&dial);
  return all;
}

void StreamDials::up() {
  up_ = true;
  for (const auto& [peer, index] : std::exchange(waiting_, {})) dial(peer, index);
}

void StreamDials::stop() {
  stopped_ = true;
  for (const Dial& dial : dials_) dialer_.cancel(dial);
  dials_.clear();
}

void StreamDials::dial(int peer, StreamIndex index) {
  TUTTI_ASSERT(peer >= 0 && peer < request_.nRanks);
  if (peer <= request_.rank || stopped_) return;
  if (!up_) {  // its control address may not be known yet
    waiting_.emplace_back(peer, index);
    return;
  }
  if (dialed_.emplace(peer, index).second) dialFor(Purpose::Stream, peer, index);
}

void StreamDials::summon(int peer, StreamIndex index) {
  TUTTI_ASSERT(up_ && peer >= 0 && peer < request_.rank);
  if (!stopped_) dialFor(Purpose::Summon, peer, index);
}

void StreamDials::dialFor(Purpose purpose, int peer, StreamIndex index) {
  Dial& dial = dials_.emplace_back();
  const ControlAddress& to = controlAddresses_[static_cast<size_t>(peer)];
  dial.to = purpose == Purpose::Stream ? beginWith(to, pathOfStream(index)) : to;
  dial.hello = {purpose, request_.commId, request_.rank, peer, request_.nRanks, index};
  dial.beganNs = network_.nowNs();
  dialer_.dial(dial);
}

bool StreamDials::onProven(LinkId link, const Hello& hello, bool weDialed) {
  const int peer = weDialed ? hello.acceptor : hello.dialer;
  if (weDialed) {
    const auto dial = std::find_if(dials_.begin(), dials_.end(), [&](const Dial& d) { return d.link == link; });
    if (dial == dials_.end()) return false;
    dials_.erase(dial);
  }
  if (hello.purpose == Purpose::Summon) {
    if (!weDialed && peer > request_.rank) dial(peer, hello.index);
    return false;
  }
  if (!weDialed && peer >= request_.rank) return false;  // the lower rank dials
  network_.handOver(link, BootstrapNode::streamKey(request_.commId, peer, hello.index), {});
  return true;
}

void StreamDials::onDialFailed(LinkId link, const Status& why) {
  for (Dial& dial : dials_)
    if (dial.link == link) return dialer_.again(dial, why);
}

}  // namespace tutti
