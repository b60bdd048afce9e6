// The example model: its gradient, its parity between layouts, and that parity sees mistakes.
#include <catch2/catch.hpp>

#include <cmath>

#include "examples/gpt/call.hpp"
#include "examples/gpt/storage.hpp"
#include "examples/gpt/train.hpp"

using namespace gpt;

namespace {

Shape tiny() {
  Shape s;
  s.width = 24;
  s.layers = 2;
  s.sequence = 16;
  s.heads = 4;
  s.kvHeads = 2;
  s.perMicroBatch = 2;
  s.microBatches = 5;
  return s;
}

const std::string& text() {
  static const std::string read = readText(TUTTI_GPT_TEXT, tiny());
  return read;
}

Run runOf(bool invariant, int steps, Mistake mistake = Mistake::None) {
  Run run;
  run.steps = steps;
  run.invariant = invariant;
  run.mistake = mistake;
  return run;
}

}  // namespace

TEST_CASE("the model's gradient is the slope of its loss, in double") {
  for (const bool experts : {false, true}) {
    const bool invariant = !experts;
    const Shape shape = tiny();
    Model<double> model(shape, Stage{0, shape.layers, true, true}, nullptr, false, runOf(invariant, 1), false, {},
                        experts);
    StorageOptions options;
    options.invariant = false;  // the gradient stays where backward put it until the step
    const auto trainer = makeTrainer<double>(model.parameters(), options);
    std::vector<int32_t> ids, targets;
    for (int64_t t = 0; t < shape.perMicroBatch * shape.sequence; ++t) {
      ids.push_back(static_cast<unsigned char>(text()[static_cast<size_t>(t)]));
      targets.push_back(static_cast<unsigned char>(text()[static_cast<size_t>(t) + 1]));
    }
    const auto loss = [&] { return model.forward(0, ids.data(), targets.data(), nullptr, nullptr, *trainer); };
    trainer->begin();
    loss();
    model.backward(0, ids.data(), nullptr, nullptr, *trainer);
    for (size_t p = 0; p < model.parameters().size(); ++p) {
      const Parameter& parameter = model.parameters()[p];
      auto* value = static_cast<double*>(trainer->value(p).data);
      const auto* gradient = static_cast<const double*>(trainer->gradient(p).data);
      double largest = 0;
      for (int64_t e = 0; e < parameter.count(); ++e) largest = std::max(largest, std::abs(gradient[e]));
      for (const int64_t e : {int64_t{0}, parameter.count() / 2 + 5, parameter.count() - 1}) {
        const double kept = value[e];
        value[e] = kept + 1e-5;
        const double above = loss();
        value[e] = kept - 1e-5;
        const double below = loss();
        value[e] = kept;
        CAPTURE(experts, parameter.name, parameter.unit, e, gradient[e]);
        CHECK(std::abs((above - below) / 2e-5 - gradient[e]) < 1e-6 * largest + 1e-9);
      }
      CHECK(largest > 0);
    }
  }
}

TEST_CASE("layouts agree with one rank: every bit in layout-invariant mode, closely in fast mode") {
  for (const bool invariant : {true, false}) {
    const Run run = runOf(invariant, 4);
    const Outcome one = trainOnThreads(tiny(), Layout{}, run, text());
    CHECK(one.losses.back() < one.losses.front());
    for (const Layout& layout : {Layout{"dp 3", 1, 1, 3}, Layout{"zero 1, 2", 1, 1, 2, false, 1},
                                 Layout{"tp 2, sequence x dp 2", 2, 1, 2, true}, Layout{"tp 3", 3, 1, 1},
                                 Layout{"pp 2, zbv", 1, 2, 1, false, -1, "zbv"},
                                 Layout{"pp 2, interleaved", 1, 2, 1, false, -1, "interleaved", 2},
                                 Layout{"pp 2, zb-h1 x zero 2, 1", 1, 2, 1, false, 2, "zb-h1"},
                                 Layout{"tp 2, sequence x pp 2, zb-h1", 2, 2, 1, true, -1, "zb-h1"}}) {
      CAPTURE(invariant, layout.name);
      const Outcome is = trainOnThreads(tiny(), layout, run, text());
      CHECK(is.bytesAgree);
      if (invariant) CHECK(is.hash == one.hash);
      for (size_t s = 0; s < one.losses.size(); ++s) {
        CHECK(std::abs(is.losses[s] - one.losses[s]) <= (invariant ? 0 : 1e-5));
      }
    }
  }
}

TEST_CASE("ranks over tokens have one rank's bits; a wrong mask shows") {
  const auto train = [](bool invariant, int tp, int ulysses, int ring, int pp, int tokens, Mistake mistake) {
    Shape shape = tiny();
    shape.perMicroBatch = 1;
    shape.heads = shape.kvHeads = 4;
    Layout l{"tokens", tp, pp, 1};
    l.ulysses = ulysses;
    l.ring = ring;
    l.tokens = tokens;
    return trainOnThreads(shape, l, runOf(invariant, 3, mistake), text());
  };
  const Outcome one = train(true, 1, 1, 1, 1, 0, Mistake::None), fast = train(false, 1, 1, 1, 1, 0, Mistake::None);
  struct Row {
    int tp, ulysses, ring, pp, tokens;
  };
  for (const Row& row : {Row{1, 2, 1, 1, 0}, {1, 1, 4, 1, 1}, {2, 2, 1, 1, 0}, {1, 2, 2, 1, 0}, {2, 1, 2, 2, 2}}) {
    CAPTURE(row.tp, row.ulysses, row.ring, row.pp, row.tokens);
    const Outcome is = train(true, row.tp, row.ulysses, row.ring, row.pp, row.tokens, Mistake::None);
    CHECK(is.hash == one.hash);
    CHECK(is.losses == one.losses);
    CHECK(is.bytesAgree);
    const Outcome near = train(false, row.tp, row.ulysses, row.ring, row.pp, row.tokens, Mistake::None);
    CHECK(near.bytesAgree);
    for (size_t s = 0; s < 3; ++s) CHECK(std::abs(near.losses[s] - fast.losses[s]) < 1e-6 * fast.losses[s]);
  }
  CHECK(train(true, 1, 1, 2, 1, 0, Mistake::WrongMask).hash != one.hash);
  // Of one step of a ring, one hop on one rank; where hops are as they should be losses are within 1e-6, as above.
  const Outcome hop = train(false, 1, 1, 2, 1, 0, Mistake::WrongHop);
  CHECK(std::abs(hop.losses[0] - fast.losses[0]) > 1e-5 * fast.losses[0]);
}

TEST_CASE("experts over ranks have one rank's bits, and their gradient is the slope of the loss") {
  const auto train = [](bool invariant, int ep, int tp, int pp, int dp, const char* schedule) {
    Shape shape = tiny();
    shape.perMicroBatch = 1;
    shape.microBatches = 4;
    shape.experts = 5;  // over two ranks: 3 and 2
    Layout l{"experts", tp, pp, dp, false, -1, schedule};
    l.experts = true;
    l.ep = ep;
    const Outcome is = trainOnThreads(shape, l, runOf(invariant, 3), text());
    CHECK(is.bytesAgree);
    return is;
  };
  const Outcome one = train(true, 1, 1, 1, 1, "1f1b"), fast = train(false, 1, 1, 1, 1, "1f1b");
  CHECK(one.losses.back() < one.losses.front());
  struct Row {
    int ep, tp, pp, dp;
    const char* schedule;
  };
  for (const Row& row : {Row{2, 1, 1, 1, "1f1b"}, {4, 1, 1, 1, "1f1b"}, {2, 1, 2, 2, "zb-h1"}, {2, 2, 1, 1, "1f1b"}}) {
    CAPTURE(row.ep, row.tp, row.pp, row.dp);
    const Outcome is = train(true, row.ep, row.tp, row.pp, row.dp, row.schedule);
    CHECK(is.hash == one.hash);
    CHECK(is.losses == one.losses);
  }
  const Outcome near = train(false, 2, 1, 1, 2, "1f1b");
  for (size_t s = 0; s < 3; ++s) CHECK(std::abs(near.losses[s] - fast.losses[s]) < 1e-5 * fast.losses[s]);
  CHECK_THROWS_WITH(train(true, 3, 1, 1, 1, "1f1b"), Catch::Contains("as many micro-batches each"));
}

TEST_CASE("an embedding that is also the head is the same in every layout; a tie that is not summed shows") {
  const auto hashOf = [](Layout layout, Mistake mistake = Mistake::None) {
    layout.tied = true;
    const Outcome is = trainOnThreads(tiny(), layout, runOf(true, 3, mistake), text());
    CHECK(is.bytesAgree);
    return is.hash;
  };
  const uint64_t one = hashOf(Layout{});
  CHECK(hashOf(Layout{"pp 2", 1, 2, 1}) == one);
  CHECK(hashOf(Layout{"tp 2 x dp 2", 2, 1, 2}) == one);
  CHECK(hashOf(Layout{"pp 2, zbv", 1, 2, 1, false, -1, "zbv"}) == one);
  CHECK(hashOf(Layout{"pp 2", 1, 2, 1}, Mistake::UnreducedTie) != one);
}

TEST_CASE("a gradient that is written after it was given away is refused") {
  const Layout dp{"dp 2", 1, 1, 2};
  CHECK_THROWS_WITH(trainOnThreads(tiny(), dp, runOf(true, 1, Mistake::ReusedBucket), text()),
                    Catch::Contains("the gradient of parameter 0 was written after tuttiDdpGradReady"));
}

TEST_CASE("every mistake shows in the hash of the first step's values") {
  const Outcome one = trainOnThreads(tiny(), Layout{}, runOf(true, 1), text());
  const Layout dp{"dp 2", 1, 1, 2}, sequence{"tp 2, sequence", 2, 1, 1, true}, pp{"pp 2", 1, 2, 1}, tp{"tp 2", 2, 1, 1};
  CHECK(trainOnThreads(tiny(), dp, runOf(true, 1), text()).hash == one.hash);
  CHECK(trainOnThreads(tiny(), sequence, runOf(true, 1), text()).hash == one.hash);
  for (const Mistake mistake :
       {Mistake::SumForAverage, Mistake::SkippedMicroBatch, Mistake::SwappedGradients, Mistake::ReusedTokens,
        Mistake::NormNotReduced, Mistake::ShiftedStage, Mistake::MissingAllReduce}) {
    CAPTURE(static_cast<int>(mistake));
    const Layout& layout = mistake == Mistake::NormNotReduced     ? sequence
                           : mistake == Mistake::ShiftedStage     ? pp
                           : mistake == Mistake::MissingAllReduce ? tp
                                                                  : dp;
    CHECK(trainOnThreads(tiny(), layout, runOf(true, 1, mistake), text()).hash != one.hash);
  }
}
