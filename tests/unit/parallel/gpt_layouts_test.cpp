// Layouts whose heads, layers, leaves, micro-batches and ranks divide nothing, drawn at random: each has one rank's
// bits in layout-invariant mode and is close to it in fast mode, or is refused before the first step. A failing draw is
// printed with its seed; TUTTI_TEST_SEED=<seed> runs it alone.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <regex>
#include <sstream>

#include "examples/gpt/train.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"

using namespace gpt;

namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed * 7919 + 1) {}
  int between(int low, int high) { return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1)); }
  template <class T>
  T oneOf(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int>(values.size()) - 1)];
  }
  bool onceIn(int times) { return between(1, times) == 1; }

 private:
  std::mt19937_64 engine_;
};

struct Draw {
  Shape shape;
  Layout layout;
  Run run;
};

Draw drawOf(uint64_t seed) {
  Dice dice(seed);
  Draw d;
  const bool odd = dice.onceIn(8);  // also what is to be refused
  d.shape.kvHeads = dice.between(1, 5);
  d.shape.heads = d.shape.kvHeads * dice.between(1, 2);
  d.shape.width = d.shape.heads * dice.between(1, 3);
  d.shape.layers = dice.between(1, 4);
  d.shape.sequence = dice.between(5, 60);
  d.shape.microBatches = dice.between(1, 6);
  d.run.invariant = !dice.onceIn(4);
  d.run.sgd = !d.run.invariant || dice.onceIn(2);
  d.run.steps = 2;
  d.run.leaves = dice.oneOf({1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 24, 30, 33});
  Layout& l = d.layout;
  l.experts = dice.onceIn(5);
  int* axes[] = {&l.tp, &l.pp, &l.dp, &l.ep, &l.ulysses, &l.ring};
  for (int tries = dice.between(1, 3); tries > 0; --tries) {
    int* axis = axes[dice.between(0, l.experts && !odd ? 3 : 5)];
    if (axis == &l.ep && !l.experts) axis = &l.ring;
    const int before = *axis;
    *axis = dice.oneOf({2, 3, 4, 5, 7});
    if (l.ranks() > 9) *axis = before;
  }
  if (!odd) d.shape.microBatches = std::max(d.shape.microBatches, l.dp * l.ep);
  if (!odd && l.ep > 1) d.shape.microBatches = l.dp * l.ep * dice.oneOf({1, 2});
  const bool tokenRanks = l.ulysses * l.ring > 1;
  l.tokens = dice.between(0, 2);
  d.shape.perMicroBatch = tokenRanks && d.run.invariant && !odd ? 1 : dice.between(1, 2);
  l.sequence = dice.onceIn(2) && (odd || (!tokenRanks && !l.experts));
  l.schedule = dice.oneOf({"gpipe", "1f1b", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-h2", "zbv"});
  if (l.schedule == "interleaved" || l.schedule == "breadth-first") l.chunks = dice.between(1, 2);
  if (dice.onceIn(2) && (odd || (l.ep == 1 && l.chunks == 1 && l.schedule != "zbv"))) l.zero = dice.between(0, 3);
  if (!odd && l.zero == 3 && l.schedule[0] == 'z') l.zero = 2;
  if (!odd && l.zero >= 2) d.shape.microBatches = l.dp * dice.between(1, 2);
  l.tied = dice.onceIn(4) && (l.zero < 0 || odd);
  return d;
}

std::string textOf(const Draw& d) {
  const Layout& l = d.layout;
  const Shape& s = d.shape;
  std::ostringstream out;
  out << (d.run.invariant ? "layout-invariant" : "fast") << ", tp " << l.tp << (l.sequence ? ", sequence" : "")
      << ", ulysses " << l.ulysses << ", ring " << l.ring << " (tokens " << l.tokens << "), pp " << l.pp << " ("
      << l.schedule << ", " << l.chunks << " chunks), dp " << l.dp << ", ep " << l.ep << ", zero " << l.zero
      << (l.tied ? ", tied" : "") << (l.experts ? ", experts" : "") << "; leaves " << d.run.leaves << ", tokens "
      << s.perMicroBatch << " x " << s.sequence << ", micro-batches " << s.microBatches << ", heads " << s.heads
      << " / " << s.kvHeads << " of " << s.width << ", layers " << s.layers << (d.run.sgd ? ", SGD" : ", AdamW");
  return out.str();
}

const std::string& drawnText() {
  static const std::string read = readText(TUTTI_GPT_TEXT, Shape{});
  return read;
}

/// What is wrong with how a layout agrees with one rank.
std::string compare(const Draw& d, const Outcome& one, const Outcome& is) {
  if (!is.bytesAgree) return "other bytes than the formula's";
  if (d.run.invariant) {
    if (is.losses != one.losses) return "other losses than one rank's";
    const size_t n = std::min(is.values.size(), one.values.size());
    for (size_t i = 0; i < n; ++i) {
      if (is.values[i] != one.values[i]) return "value " + std::to_string(i) + " is another than one rank's";
    }
    return is.hash == one.hash && is.values.size() == one.values.size() ? "" : "other values than one rank's";
  }
  for (size_t s = 0; s < one.losses.size(); ++s) {
    const double apart = std::abs(is.losses[s] - one.losses[s]) / one.losses[s];
    if (!(apart < 1e-5)) return "loss " + std::to_string(s) + " differs by " + std::to_string(apart);
  }
  return "";
}

/// refused: set to the sentence of a layout that none of the ranks began with.
std::string wrong(const Draw& d, std::string* refused) {
  Layout alone;
  alone.tied = d.layout.tied;
  alone.experts = d.layout.experts;
  try {
    const Outcome is = trainOnThreads(d.shape, d.layout, d.run, drawnText());
    return compare(d, trainOnThreads(d.shape, alone, d.run, drawnText()), is);
  } catch (const Refused& why) {
    *refused = why.what();
  } catch (const std::exception& why) {
    return std::string("failed after the first step began: ") + why.what();
  }
  static const std::regex rank("(^|\n)rank [0-9]+: "), number("[0-9]");
  return std::regex_search(std::regex_replace(*refused, rank, ""), number) ? ""
                                                                           : "refused without numbers: " + *refused;
}

Draw tokensOver(int ulysses, int ring, int leaves, int sequence, bool invariant) {
  Draw d;
  d.shape.width = 12;
  d.shape.heads = 6;
  d.shape.kvHeads = 3;
  d.shape.layers = 2;
  d.shape.sequence = sequence;
  d.shape.microBatches = 1;
  d.layout.ulysses = ulysses;
  d.layout.ring = ring;
  d.run.steps = 2;
  d.run.invariant = invariant;
  d.run.sgd = true;
  d.run.leaves = leaves;
  return d;
}

}  // namespace

TEST_CASE("any number of ranks over tokens and any number of leaves have one rank's bits", "[thorough]") {
  struct Row {
    int ranks, leaves;
  };
  for (const Row& row : {Row{3, 30}, {3, 24}, {5, 30}, {3, 6}, {3, 12}, {5, 7}, {7, 4}, {3, 1}, {7, 64}}) {
    for (const int sequence : {60, 23}) {
      if (sequence == 23 && !tutti::test::kThorough) continue;
      for (const auto& [ulysses, ring] : {std::pair{row.ranks, 1}, {1, row.ranks}}) {
        const Draw draw = tokensOver(ulysses, ring, row.leaves, sequence, true);
        CAPTURE(textOf(draw));
        std::string refused;
        CHECK(wrong(draw, &refused) == "");
        CHECK(refused == "");
      }
    }
  }
  const Draw both = tokensOver(2, 3, 10, 44, true);
  Draw idle = tokensOver(3, 2, 10, 44, true);
  idle.shape.heads = idle.shape.kvHeads = 2;  // two of six ranks have none
  for (const Draw& draw : {both, idle}) {
    std::string refused;
    CAPTURE(textOf(draw));
    CHECK(wrong(draw, &refused) == "");
    CHECK(refused == "");
  }
}

TEST_CASE("in fast mode ranks over tokens need not divide tokens, heads or leaves") {
  for (const auto& [ulysses, ring] : {std::pair{5, 1}, {1, 5}, {7, 1}, {1, 7}, {3, 2}}) {
    const Draw draw = tokensOver(ulysses, ring, 4, 13, false);
    CAPTURE(textOf(draw));
    std::string refused;
    CHECK(wrong(draw, &refused) == "");
    CHECK(refused == "");
  }
}

TEST_CASE("any layout has one rank's bits, or is refused by its numbers before the first step", "[thorough]") {
  const std::vector<uint64_t> seeds = tutti::testSeeds(1, tutti::test::kThorough ? 20 : 4);
  size_t refusals = 0;
  for (const uint64_t seed : seeds) {
    const Draw draw = drawOf(seed);
    std::string refused;
    const std::string why = wrong(draw, &refused);
    CAPTURE(seed, textOf(draw));
    CHECK(why == "");
    refusals += !refused.empty();
  }
  CAPTURE(refusals, seeds.size());
  CHECK((refusals <= seeds.size() / 4 || seeds.size() < 4));
}

TEST_CASE("layouts that cannot be trained are refused on every rank by the numbers that do not fit") {
  struct Row {
    const char* sentence;
    void (*change)(Draw&);
  };
  for (const Row& row : {
           Row{"2 micro-batches over 3 ranks (dp 3, ep 1)", [](Draw& d) { d.layout.dp = 3, d.shape.microBatches = 2; }},
           {"2 sequences of a micro-batch over 3 ranks of tokens",
            [](Draw& d) { d.layout.ring = 3, d.shape.perMicroBatch = 2; }},
           {"tokens are cut over 2 tensor-parallel ranks and 3 of Ulysses and rings",
            [](Draw& d) { d.layout.ring = 3, d.layout.tp = 2, d.layout.sequence = true; }},
           {"each: 6 over 4 ranks",
            [](Draw& d) { d.layout.ep = 4, d.layout.experts = true, d.shape.microBatches = 6; }},
           {"6 over 2 ranks are 3",  // a power of two
            [](Draw& d) { d.layout.ep = 2, d.layout.experts = true, d.shape.microBatches = 6; }},
           {"stages 2 and 3 sum after each micro-batch",
            [](Draw& d) { d.layout.dp = 2, d.layout.zero = 2, d.shape.microBatches = 3; }},
           {"zb-h1 makes gradients of weights after stage 3 of ZeRO",
            [](Draw& d) { d.layout.pp = 2, d.layout.zero = 3, d.layout.schedule = "zb-h1"; }},
           {"a width of 12 in 5 heads", [](Draw& d) { d.shape.heads = d.shape.kvHeads = 5; }},
           {"5 tokens over 7 ranks", [](Draw& d) { d.run.invariant = false, d.layout.ring = 7, d.shape.sequence = 5; }},
       }) {
    Draw draw = tokensOver(1, 1, 6, 20, true);
    draw.shape.microBatches = 4;
    row.change(draw);
    CAPTURE(row.sentence);
    CHECK_THROWS_AS(trainOnThreads(draw.shape, draw.layout, draw.run, drawnText()), Refused);
    CHECK_THROWS_WITH(trainOnThreads(draw.shape, draw.layout, draw.run, drawnText()), Catch::Contains(row.sentence));
  }
}
