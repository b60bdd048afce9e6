// Embedding and cross entropy over a vocabulary on CUDA memory, beside the host.
#include <catch2/catch.hpp>

#include "tests/unit/parallel/cuda_support.hpp"
#include "tutti/parallel/tp.h"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr int64_t kVocabulary = 23, kVocabularyTokens = 17, kVocabularyWidth = 5;

struct VocabularyWay {
  bool invariant, sequence, idsOnDevice;
};

/// Some ids often, some never.
std::vector<int32_t> someIds() {
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < kVocabularyTokens; ++t) ids.push_back(static_cast<int32_t>(t * t % 7 * 3 + t % 2));
  return ids;
}

void take(Place& place, const tuttiTensor_t& t, Results* results) {
  const std::vector<float> part = place.read(t);
  results->insert(results->end(), part.begin(), part.end());
}

/// The loss of every token comes first.
std::string runVocabulary(const VocabularyWay& way, const Rank& r, Place& place, Results* results) {
  tuttiTpConfig_t c = TUTTI_TP_CONFIG_INITIALIZER;
  c.numerics = way.invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  c.sequenceParallel = way.sequence;
  c.leaves = 5;
  c.device = place.onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
  tuttiTp_t tp = nullptr;
  LAYER_TRY(tuttiTpCreate(&tp, r.comm, &c));
  std::vector<int64_t> cuts(static_cast<size_t>(r.nRanks) + 1), tokens(cuts);
  LAYER_TRY(tuttiTpSplit(tp, kVocabulary, 1, cuts.data()));
  LAYER_TRY(tuttiTpSplit(tp, kVocabularyTokens, 1, tokens.data()));
  const size_t me = static_cast<size_t>(r.rank);
  const int64_t first = cuts[me], end = cuts[me + 1],
                here = way.sequence ? tokens[me + 1] - tokens[me] : kVocabularyTokens;
  std::vector<int32_t> numbersOf = someIds();
  tuttiTensor_t ids = tuttiVectorOf(numbersOf.data(), tuttiInt32, kVocabularyTokens);
  if (way.idsOnDevice) ids = place.holdInts(numbersOf);
  const tuttiTensor_t logits = heldPart(place, kVocabularyTokens, kVocabulary, 3, false, first, end);
  const tuttiTensor_t dlogits = held(place, kVocabularyTokens, end - first, 0),
                      loss = place.hold(Results(kVocabularyTokens));
  LAYER_TRY(tuttiVocabCrossEntropy(tp, cuts.data(), &logits, &ids, &loss, &dlogits, 0.25));
  take(place, loss, results);
  take(place, dlogits, results);
  LAYER_TRY(tuttiVocabCrossEntropy(tp, cuts.data(), &logits, &ids, &loss, &logits, 0.25));  // in place
  RANK_CHECK(place.read(logits) == place.read(dlogits));
  const tuttiTensor_t table = heldPart(place, kVocabulary, kVocabularyWidth, 5, true, first, end);
  const tuttiTensor_t dtable = heldPart(place, kVocabulary, kVocabularyWidth, 6, true, first, end);
  const tuttiTensor_t out = held(place, here, kVocabularyWidth, 0);
  const tuttiTensor_t dout =
      way.sequence ? heldPart(place, kVocabularyTokens, kVocabularyWidth, 7, true, tokens[me], tokens[me + 1])
                   : held(place, kVocabularyTokens, kVocabularyWidth, 7);
  LAYER_TRY(tuttiVocabEmbedding(tp, cuts.data(), &ids, &table, &out));
  LAYER_TRY(tuttiVocabEmbeddingBackward(tp, cuts.data(), &ids, &dout, &dtable));
  take(place, out, results);
  take(place, dtable, results);
  numbersOf[3] = kVocabulary;
  if (way.idsOnDevice) {
    ids = place.holdInts(numbersOf);
  } else {
    ids.data = numbersOf.data();
  }
  RANK_CHECK(tuttiVocabEmbedding(tp, cuts.data(), &ids, &table, &out) == tuttiInvalidArgument);
  RANK_CHECK(std::string(tuttiParallelGetLastError()).find("ids[3] is 23") != std::string::npos);
  LAYER_TRY(tuttiTpDestroy(tp));
  return "";
}

}  // namespace

TEST_CASE("embedding and cross entropy on CUDA devices are those of the host") {
  const Variable driver = eachDriver("devices=2;delay=50");
  const int devices = hasDevices(2) ? 2 : 1;
  for (const VocabularyWay& way : {VocabularyWay{true, false, false}, VocabularyWay{true, true, true},
                                   VocabularyWay{false, false, true}, VocabularyWay{false, true, false}}) {
    Results losses;
    for (const int nRanks : {1, 3}) {
      CAPTURE(way.invariant, way.sequence, way.idsOnDevice, nRanks);
      const Pass pass = [&](const Rank& r, Place& place, Results* results) {
        return runVocabulary(way, r, place, results);
      };
      std::vector<Results> host, device;
      CHECK(runPass(nRanks, 0, pass, &host) == "");
      CHECK(runPass(nRanks, devices, pass, &device) == "");
      for (size_t r = 0; r < host.size(); ++r) {
        CHECK(apart(device[r], host[r]) < 2e-6);
        if (way.invariant && onFakeDriver()) CHECK(device[r] == host[r]);
      }
      device[0].resize(kVocabularyTokens);
      if (nRanks == 1) losses = device[0];
      if (way.invariant) CHECK(device[0] == losses);  // on a real device, too
    }
  }
  CHECK(driverComplaints() == "");
}
