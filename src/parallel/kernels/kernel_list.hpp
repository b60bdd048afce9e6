// All kernels of the layers by name: X(Name, Arguments, body of a team); on a device it is tutti_layer_Name.
#pragma once

#include "src/parallel/kernels/attention.hpp"
#include "src/parallel/kernels/experts.hpp"
#include "src/parallel/kernels/matrices.hpp"
#include "src/parallel/kernels/vectors.hpp"
#include "src/parallel/kernels/vocabulary.hpp"

// clang-format off
#define TUTTI_LAYER_KERNELS_OF(X, Type, T)                                     \
  X(Scale##Type, VectorCall, scaleVector<T>)                                   \
  X(Fill##Type, VectorCall, fillVector<T>)                                     \
  X(Add##Type, VectorCall, addVector<T>)                                       \
  X(Narrow##Type, VectorCall, narrowVector<T>)                                 \
  X(Update##Type, UpdateCall, updateVector<T>)                                 \
  X(Squares##Type, SquaresCall, addSquaresOf<T>)                               \
  X(CopyMatrix##Type, MatrixCall, copyMatrix<T>)                               \
  X(AddMatrix##Type, MatrixCall, addMatrix<T>)                                 \
  X(SumRows##Type, MatrixCall, sumRows<T>)                                     \
  X(Multiply##Type, ProductCall, multiplyTiles<T>)                             \
  X(Gelu##Type, GeluCall, geluVector<T>)                                       \
  X(Norm##Type, NormCall, normRows<T>)                                         \
  X(NormBackward##Type, NormCall, normRowsBackward<T>)                         \
  X(NormSums##Type, NormSumsCall, normSums<T>)                                 \
  X(SoftmaxTile##Type, ScoresCall, softmaxTile<T>)                             \
  X(FinishRows##Type, ScoresCall, finishRows<T>)                               \
  X(ScoreGradients##Type, ScoresCall, scoreGradients<T>)                       \
  X(Merge##Type, MergeCall, mergeParts<T>)                                     \
  X(CopyIndexed##Type, IndexedCall, copyIndexed<T>)                            \
  X(CombineRows##Type, CombineCall, combineRows<T>)                            \
  X(CombineGradient##Type, CombineCall, combineGradient<T>)                    \
  X(TakeIdRows##Type, IdRowsCall, takeIdRows<T>)                               \
  X(AddIdRows##Type, IdRowsCall, addIdRows<T>)                                 \
  X(LargestOfRows##Type, LossCall, largestOfRows<T>)                           \
  X(SumExponentials##Type, LossCall, sumExponentials<T>)                       \
  X(LossOfRows##Type, LossCall, lossOfRows<T>)                                 \
  X(LossGradient##Type, LossCall, lossGradient<T>)
#define TUTTI_LAYER_KERNELS(X)                                                 \
  TUTTI_LAYER_KERNELS_OF(X, F32, float) TUTTI_LAYER_KERNELS_OF(X, F64, double) \
  X(Widen, VectorCall, widenVector)                                            \
  X(EncodeBlocks, VectorCall, encodeBlocks)                                    \
  X(DecodeBlocks, VectorCall, decodeBlocks)                                    \
  X(SetInts, IntsCall, setInts)                                                \
  X(ChainIds, IdRowsCall, chainIds)                                            \
  X(Clip, ClipCall, clipLength)                                                \
  X(Hash, HashCall, addHashOf)
// clang-format on
