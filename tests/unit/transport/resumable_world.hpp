// Two ends of a ResumableStream and the wires between them, for tests.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "transport/tcp/resumable_stream.hpp"

namespace tutti::tcp::test {

inline constexpr size_t kWindow = kLeastWindowBytes;

inline std::byte byteAt(uint64_t position, int side) {
  return static_cast<std::byte>((position * 2654435761u + static_cast<uint64_t>(side) * 97) >> 7);
}

inline std::vector<Protection> protections() {
  if (!Gcm::available().ok()) return {Protection::Checksums};
  return {Protection::Checksums, Protection::Tags, Protection::Encryption};
}

inline std::unique_ptr<RecordSeal> sealOf(Protection protection, int side) {
  if (protection == Protection::Checksums) return nullptr;
  const Secret keys[] = {{1}, {2}};
  return std::make_unique<RecordSeal>(DirectionKeys{keys[side], keys[1 - side]}, protection == Protection::Encryption);
}

/// Two ends, and the wires of every connection that they have had.
class World {
 public:
  explicit World(size_t windowBytes, Protection protection = Protection::Checksums)
      : ends_{End(windowBytes, sealOf(protection, 0)), End(windowBytes, sealOf(protection, 1))} {
    wires_.emplace_back();
  }

  /// Up to `bytes` more of this end's stream; how many were taken.
  size_t write(int side, size_t bytes, size_t firstPart) {
    End& end = ends_[side];
    std::vector<std::byte> data(bytes);
    for (size_t i = 0; i < bytes; ++i) data[i] = byteAt(end.stream.written() + i, side);
    firstPart = std::min(firstPart, bytes);
    const iovec parts[] = {{data.data(), firstPart}, {data.data() + firstPart, bytes - firstPart}};
    return end.stream.write(parts, 0);
  }
  /// Puts up to `most` bytes on this end's wire; how many.
  size_t send(int side, size_t most) {
    End& end = ends_[side];
    std::array<iovec, 9> parts;
    const size_t n = end.stream.toSend(parts);
    size_t left = most;
    for (size_t i = 0; i < n; ++i) {
      const size_t some = std::min(left, parts[i].iov_len);
      const auto* data = static_cast<const std::byte*>(parts[i].iov_base);
      Wire& wire = wires_[end.connection];
      if (!wire.cut) wire.bytes[side].insert(wire.bytes[side].end(), data, data + some);
      left -= some;
    }
    end.stream.wasSent(most - left);
    return most - left;
  }
  /// As arrive() and take() of up to `want` bytes, straight to their reader where records allow it; every call asks for
  /// the same memory until bytes have come, or (elsewhere) for other memory.
  bool arriveStraight(int side, size_t most, size_t want, bool elsewhere) {
    End& end = ends_[side];
    if (elsewhere) end.place = end.place == 0 ? 1 : 0;
    std::vector<std::byte>& out = end.places[end.place];
    out.resize(std::max(out.size(), size_t{1} << 18));
    want = std::min(want, out.size());
    auto& wire = wires_[end.connection].bytes[1 - side];
    const iovec all[] = {{out.data(), want / 3}, {out.data() + want / 3, want - want / 3}};
    std::span<const iovec> parts(all);
    if (want < 3) parts = parts.subspan(1);
    const auto got = [&](size_t n) {
      for (size_t i = 0; i < n; ++i) right_ = right_ && out[i] == byteAt(end.taken + i, 1 - side);
      end.taken += n;
    };
    if (const size_t n = end.stream.take(parts); n > 0 || want == 0) return got(n), true;
    std::array<iovec, 5> to;
    const size_t n = end.stream.aim(parts, to);
    size_t come = 0;
    for (size_t i = 0; i < n; ++i) {
      const size_t some = std::min({most - come, wire.size(), to[i].iov_len});
      std::copy_n(wire.begin(), some, static_cast<std::byte*>(to[i].iov_base));
      wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(some));
      come += some;
    }
    const bool good = end.stream.came(come).ok();
    // Half of the time, what came straight is taken later, when it may be wanted elsewhere.
    if (good && come % 2 == 0) {
      const size_t taken = end.stream.take(parts);
      if (n > 1) straight_ += taken;
      got(taken);
    }
    return good;
  }
  uint64_t straight() const { return straight_; }
  /// Takes up to `most` bytes off the wire to this end.  False: they are damaged, and the connection is given up.
  bool arrive(int side, size_t most, size_t* bytes = nullptr) {
    End& end = ends_[side];
    auto& wire = wires_[end.connection].bytes[1 - side];
    std::array<iovec, 5> to;  // a record that was begun straight goes on so
    const size_t n = end.stream.aim({}, to);
    size_t come = 0;
    for (size_t i = 0; i < n; ++i) {
      const size_t some = std::min({most - come, wire.size(), to[i].iov_len});
      std::copy_n(wire.begin(), some, static_cast<std::byte*>(to[i].iov_base));
      wire.erase(wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(some));
      come += some;
    }
    if (bytes != nullptr) *bytes = come;
    return end.stream.came(come).ok();
  }
  /// Takes up to `most` bytes of the stream out and compares them.
  size_t take(int side, size_t most) {
    End& end = ends_[side];
    if (taken_.size() < most) taken_.resize(most);
    const iovec parts[] = {{taken_.data(), most / 3}, {taken_.data() + most / 3, most - most / 3}};
    const size_t n = end.stream.take(parts);
    for (size_t i = 0; i < n; ++i) right_ = right_ && taken_[i] == byteAt(end.taken + i, 1 - side);
    std::fill_n(taken_.begin(), n, std::byte{0xEE});
    end.taken += n;
    return n;
  }
  /// Nothing that is on the way, or is put there, arrives any more.
  void cut() {
    Wire& wire = wires_.back();
    wire.cut = true;
    for (auto& bytes : wire.bytes) bytes.clear();
  }
  void damage(int side, size_t at, unsigned bit = 2) {
    auto& bytes = wires_.back().bytes[side];
    if (!bytes.empty()) bytes[at % bytes.size()] ^= std::byte{1} << bit;
  }
  size_t onTheWay(int side) const { return wires_.back().bytes[side].size(); }
  bool onTheWayHas(int side, std::span<const std::byte> bytes) const {
    const auto& wire = wires_.back().bytes[side];
    return std::search(wire.begin(), wire.end(), bytes.begin(), bytes.end()) != wire.end();
  }
  bool isCut(int side) const { return wires_[ends_[side].connection].cut; }
  /// This end goes over to the next connection.
  void reconnect(int side) {
    End& end = ends_[side];
    if (++end.connection == wires_.size()) wires_.emplace_back();
    // The other end's bytes on the old one go nowhere.
    wires_[end.connection - 1].cut = true;
    for (auto& bytes : wires_[end.connection - 1].bytes) bytes.clear();
    end.stream.disconnect();
    end.stream.check();
    end.stream.connect();
  }
  bool behind(int side) const { return ends_[side].connection + 1 < wires_.size(); }
  ResumableStream& stream(int side) { return ends_[side].stream; }
  uint64_t taken(int side) const { return ends_[side].taken; }
  bool right() const { return right_; }
  void check() {
    for (End& end : ends_) end.stream.check();
  }
  /// Until nothing moves any more; false: something was damaged.
  bool settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (const int side : {0, 1}) {
        size_t came = 0;
        moved = send(side, SIZE_MAX) > 0 || moved;
        if (!arrive(side, SIZE_MAX, &came)) return false;
        moved = take(side, 1 << 20) > 0 || came > 0 || moved;
      }
      check();
    }
    return true;
  }

 private:
  struct Wire {
    std::array<std::deque<std::byte>, 2> bytes;  // by the end that they come from
    bool cut = false;
  };
  struct End {
    End(size_t windowBytes, std::unique_ptr<RecordSeal> seal) : stream(windowBytes, std::move(seal)) {}
    ResumableStream stream;
    size_t connection = 0;
    uint64_t taken = 0;
    std::array<std::vector<std::byte>, 2> places;  // what is read into straight
    size_t place = 0;
  };
  std::array<End, 2> ends_;
  std::deque<Wire> wires_;
  bool right_ = true;
  std::vector<std::byte> taken_;  // kept: memory that is new in each call is most of what a sanitized test would do
  uint64_t straight_ = 0;
};

}  // namespace tutti::tcp::test
