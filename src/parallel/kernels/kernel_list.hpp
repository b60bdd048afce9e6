// All kernels of the layers by name: X(Name, Argument, items, body of a team); on a device it is tutti_layer_Name.
//   items  how many things its threads stride over, of its argument c; none: there is nothing to do
#pragma once

#include "src/parallel/kernels/attention.hpp"
#include "src/parallel/kernels/experts.hpp"
#include "src/parallel/kernels/matrices.hpp"
#include "src/parallel/kernels/vectors.hpp"
#include "src/parallel/kernels/vocabulary.hpp"

// clang-format off
#define TUTTI_LAYER_KERNELS_OF(X, Type, T) \
  X(Scale##Type, VectorCall, c.count, scaleVector<T>) \
  X(Fill##Type, VectorCall, c.count, fillVector<T>) \
  X(Add##Type, VectorCall, c.count, addVector<T>) \
  X(Narrow##Type, VectorCall, c.count, narrowVector<T>) \
  X(Update##Type, UpdateCall, c.count, updateVector<T>) \
  X(Squares##Type, SquaresCall, c.count, addSquaresOf<T>) \
  X(CopyMatrix##Type, MatrixCall, c.rows * c.columns, copyMatrix<T>) \
  X(AddMatrix##Type, MatrixCall, c.rows * c.columns, addMatrix<T>) \
  X(SumRows##Type, MatrixCall, c.columns, sumRows<T>) \
  X(Multiply##Type, ProductCall, c.batch * ((c.m + 3) / 4) * ((c.n + 3) / 4) * 4, multiplyTiles<T>) \
  X(Gelu##Type, GeluCall, c.count, geluVector<T>) \
  X(Norm##Type, NormCall, c.rows * kRowThreads, normRows<T>) \
  X(NormBackward##Type, NormCall, c.rows * kRowThreads, normRowsBackward<T>) \
  X(NormSums##Type, NormSumsCall, c.width, normSums<T>) \
  X(SoftmaxTile##Type, ScoresCall, c.heads * c.queries * kRowThreads, softmaxTile<T>) \
  X(FinishRows##Type, ScoresCall, c.heads * c.queries * kRowThreads, finishRows<T>) \
  X(ScoreGradients##Type, ScoresCall, c.heads * c.queries * kRowThreads, scoreGradients<T>) \
  X(Merge##Type, MergeCall, c.rows * kRowThreads, mergeParts<T>) \
  X(CopyIndexed##Type, IndexedCall, c.rows * c.width, copyIndexed<T>) \
  X(CombineRows##Type, CombineCall, c.tokens * c.width, combineRows<T>) \
  X(CombineGradient##Type, CombineCall, c.tokens * c.choices * kRowThreads, combineGradient<T>) \
  X(TakeIdRows##Type, IdRowsCall, c.count * c.width, takeIdRows<T>) \
  X(AddIdRows##Type, IdRowsCall, c.count * c.width, addIdRows<T>) \
  X(LargestOfRows##Type, LossCall, c.rows * kRowThreads, largestOfRows<T>) \
  X(SumExponentials##Type, LossCall, c.rows * kRowThreads, sumExponentials<T>) \
  X(LossOfRows##Type, LossCall, c.rows, lossOfRows<T>) \
  X(LossGradient##Type, LossCall, c.rows * c.columns, lossGradient<T>)
#define TUTTI_LAYER_KERNELS_OF_ONE_TYPE(X) \
  X(Widen, VectorCall, c.count, widenVector) \
  X(Rest, VectorCall, c.count, restOfVector) \
  X(EncodeBlocks, VectorCall, c.count, encodeBlocks) \
  X(DecodeBlocks, VectorCall, c.count, decodeBlocks) \
  X(SetInts, IntsCall, c.count, setInts) \
  X(ChainIds, IdRowsCall, c.count, chainIds) \
  X(Clip, ClipCall, 1, clipLength) \
  X(Hash, HashCall, c.count, addHashOf)
#define TUTTI_LAYER_KERNELS(X) \
  TUTTI_LAYER_KERNELS_OF(X, F32, float) TUTTI_LAYER_KERNELS_OF(X, F64, double) TUTTI_LAYER_KERNELS_OF_ONE_TYPE(X)
// clang-format on
