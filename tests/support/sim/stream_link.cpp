#include "tests/support/sim/stream_link.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/base/clock.hpp"
#include "transport/mismatch.hpp"

namespace tutti::sim {
namespace {

constexpr int64_t kMostPieceBytes = 700;     // of what a socket takes at once
constexpr int64_t kBetweenAsksNs = 2 * kMs;  // for a new connection

}  // namespace

void StreamLink::pump(int side) {
  End& from = ends_[side];
  SimWorld& world = wires_->world;
  if (!hasRoom(side)) {
    const iovec message{from.out.data(), from.out.size()};
    from.written += from.stream.write({&message, 1}, from.written);
  }
  while (from.up && !down_) {
    std::array<iovec, 4> parts;
    const size_t n = from.stream.toSend(parts);
    std::string piece;
    const auto most = static_cast<size_t>(world.randomBetween(1, kMostPieceBytes));
    for (size_t i = 0; i < n && piece.size() < most; ++i)
      piece.append(static_cast<const char*>(parts[i].iov_base), std::min(parts[i].iov_len, most - piece.size()));
    if (piece.empty()) return;
    from.stream.wasSent(piece.size());
    if (options().breaksPerMillion > 0 && world.random() % 1'000'000 < options().breaksPerMillion) breakConnection();
    from.lastNs = std::max(from.lastNs, world.nowNs() + world.someDelayNs());
    world.post(from.node, ends_[1 - side].node, from.lastNs,
               [self = shared_from_this(), side, connection = from.connection, piece] {
                 self->arrive(1 - side, connection, piece);
               });
  }
}

void StreamLink::arrive(int side, int connection, const std::string& bytes) {
  End& to = ends_[side];
  if (down_ || connection <= brokenUpTo_ || connection < to.connection) return;
  if (connection > to.connection) adopt(side, connection);
  if (!to.up) return;
  for (size_t at = 0; at < bytes.size();) {
    const std::span<std::byte> room = to.stream.room();
    const size_t n = std::min(room.size(), bytes.size() - at);
    std::memcpy(room.data(), bytes.data() + at, n);
    at += n;
    if (n > 0 && to.stream.came(n).ok()) continue;
    to.broken = internalError("rank ", to.rank, ": bytes of a connection that was not damaged are");
    break;
  }
  to.stream.check();
  pump(side);
  wires_->changed(to.rank);
}

void StreamLink::breakConnection() {
  const int connection = std::max(ends_[0].connection, ends_[1].connection);
  if (connection <= brokenUpTo_ || down_) return;
  brokenUpTo_ = connection;
  ++nBreaks_;
  for (const int side : {0, 1}) {
    wires_->world.at(wires_->world.nowNs() + someDelay(),
                     [self = shared_from_this(), side, connection] { self->notice(side, connection); });
  }
}

// An end that has not come to know the connection that has broken asks for it all the same, and hears of the next.
void StreamLink::notice(int side, int connection) {
  End& end = ends_[side];
  if (down_ || !wires_->world.alive(end.node) || end.connection > connection || !end.closed.ok()) return;
  if (std::exchange(end.up, false)) end.stream.disconnect();
  ask(side, connection + 1);
}

void StreamLink::ask(int side, int connection) {
  End& end = ends_[side];
  SimWorld& world = wires_->world;
  if (down_ || !world.alive(end.node) || end.connection >= connection || !end.closed.ok()) return;
  world.post(end.node, ends_[1 - side].node, world.nowNs() + world.someDelayNs(),
             [self = shared_from_this(), side, connection] { self->asked(1 - side, connection); });
  world.at(world.nowNs() + kBetweenAsksNs,
           [self = shared_from_this(), side, connection] { self->ask(side, connection); });
}

void StreamLink::asked(int side, int connection) {
  End& end = ends_[side];
  if (down_ || end.connection > connection) return;
  if (end.connection < connection) adopt(side, connection);
  SimWorld& world = wires_->world;
  world.post(end.node, ends_[1 - side].node, world.nowNs() + world.someDelayNs(),
             [self = shared_from_this(), side, connection] {
               if (!self->down_ && self->ends_[1 - side].connection < connection) self->adopt(1 - side, connection);
             });
}

void StreamLink::adopt(int side, int connection) {
  End& end = ends_[side];
  if (end.up) end.stream.disconnect();
  end.connection = connection;
  end.up = true;
  end.stream.connect();
  end.stream.check();
  if (connection <= brokenUpTo_)  // it broke before this end had it
    wires_->world.at(wires_->world.nowNs() + someDelay(),
                     [self = shared_from_this(), side, connection] { self->notice(side, connection); });
  pump(side);
  wires_->changed(end.rank);
}

// Behind all that was sent, which is lost if the connection is: as with a process that ends.
void StreamLink::close(int side) {
  End& from = ends_[side];
  End& to = ends_[1 - side];
  const Status status = remoteError("rank ", from.rank, " has closed its sim stream (lane ", lane_, ")");
  from.lastNs = std::max(from.lastNs, wires_->world.nowNs() + wires_->world.someDelayNs());
  wires_->world.post(from.node, to.node, from.lastNs, [self = shared_from_this(), &to, status] {
    to.closed = status;
    self->wires_->changed(to.rank);
  });
}

void StreamLink::breakDown(const char* why) {
  if (std::exchange(down_, true)) return;
  for (const int side : {0, 1}) {
    const Status status = remoteError("the sim stream to rank ", ends_[1 - side].rank, " ", why, " (lane ", lane_, ")");
    wires_->world.at(wires_->world.nowNs() + someDelay(), [self = shared_from_this(), side, status] {
      self->ends_[side].broken = status;
      self->wires_->changed(self->ends_[side].rank);
    });
  }
}

// ---- Messages

Result<bool> StreamEndpoint::send(const std::byte* data, size_t bytes, const Fingerprint& call) {
  if (failure_.ok()) failure_ = self().broken;
  if (failure_.ok()) failure_ = self().closed;
  TUTTI_TRY(failure_);
  link_->pump(side_);
  if (!link_->hasRoom(side_)) return false;
  const Header header{bytes, call};
  self().out.assign(reinterpret_cast<const char*>(&header), sizeof header);
  if (bytes > 0) self().out.append(reinterpret_cast<const char*>(data), bytes);
  self().written = 0;
  link_->pump(side_);
  return true;
}

Result<std::span<std::byte>> StreamEndpoint::reserve() {
  if (failure_.ok()) failure_ = self().broken;
  TUTTI_TRY(failure_);
  if (!link_->hasRoom(side_)) return std::span<std::byte>{};
  staging_.resize(slotBytes());
  return std::span<std::byte>(staging_);
}

/// Whether the message is whole.
bool StreamEndpoint::pull() {
  while (true) {
    Header header;
    if (in_.size() >= sizeof header) std::memcpy(&header, in_.data(), sizeof header);
    const size_t whole = sizeof header + (in_.size() >= sizeof header ? header.bytes : 0);
    if (in_.size() == whole && in_.size() >= sizeof header) return true;
    std::string more(whole - in_.size(), '\0');
    const iovec part{more.data(), more.size()};
    const size_t n = self().stream.take({&part, 1});
    in_.append(more, 0, n);
    if (n == 0) return false;
    link_->pump(side_);
  }
}

Result<const std::byte*> StreamEndpoint::peek(const Expect& expect) {
  if (failure_.ok()) failure_ = self().broken;
  TUTTI_TRY(failure_);
  if (!pull()) {
    failure_ = self().closed;
    TUTTI_TRY(failure_);
    return static_cast<const std::byte*>(nullptr);
  }
  Header header;
  std::memcpy(&header, in_.data(), sizeof header);
  seen_ = header.call;
  failure_ = checkExpected(link_->end(1 - side_).rank, expect, header.bytes, header.call);
  TUTTI_TRY(failure_);
  peeked_ = true;
  return reinterpret_cast<const std::byte*>(in_.data()) + sizeof header;
}

void StreamEndpoint::release() {
  if (std::exchange(peeked_, false)) in_.clear();
}

Result<bool> StreamEndpoint::receive(std::byte* dst, const Expect& expect) {
  TUTTI_ASSIGN(const std::byte* message, peek(expect));
  if (message == nullptr) return false;
  if (expect.bytes > 0) std::memcpy(dst, message, expect.bytes);
  release();
  return true;
}

}  // namespace tutti::sim
