// The buffers of one cell: how large they are, what is in them, and what must be in them afterwards.
#pragma once

#include <cstddef>
#include <string>

#include "perf/compare/adapter.hpp"

namespace tutti::compare {

/// Of a message size as nccl-tests counts it: AllGather's is the receive buffer, ReduceScatter's and AllToAll's the
/// send buffer, the others' the message.  At least one element.
size_t countOf(Op op, Type type, size_t bytes, int nRanks);
size_t sendBytes(const Call& call, int nRanks);
size_t recvBytes(const Call& call, int nRanks);

/// Writes this rank's input and wipes the output.  Values are small integers: exact in either type, in any order of
/// summation, and different for every rank and element.
void fill(const Call& call, int rank, int nRanks);

/// Writes what this rank sends in call number `turn`: other values than before in every element.
void refill(const Call& call, int rank, int nRanks, unsigned turn);

/// Wipes what check looks at, so that an old result does not pass for a new one.
void wipe(const Call& call, int rank, int nRanks);

/// Compares the first, the middle and the last element of every block and about a thousand others between them, with
/// what the inputs of call number `turn` give.  Returns "" or what was wrong.
std::string check(const Call& call, int rank, int nRanks, unsigned turn = 0);

}  // namespace tutti::compare
