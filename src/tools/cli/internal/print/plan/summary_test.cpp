#include "tools/cli/internal/print/plan/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace tessera {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Layers of one op each, in scopes "blocks.0", "blocks.1", ...
Graph layers(int count) {
  std::string text = "input x: f32[4]\n", before = "x";
  for (int i = 0; i < count; ++i) {
    const std::string name = "blocks." + std::to_string(i) + ".relu";
    text += name + " = relu(" + before + "): f32[4]\n";
    before = name;
  }
  return parse_graph(text);
}

int64_t line_count(const std::string& text) {
  return std::ranges::count(text, '\n');
}

PlanNumbers one_mesh(Bytes parameters, Bytes state, Bytes activations) {
  PlanNumbers numbers;
  numbers.title = "plan 'p', 1 rank";
  numbers.memory = {{"all", parameters, state, activations}};
  return numbers;
}

TEST(Summary, OfAPlanWithoutExchangesSaysSo) {
  EXPECT_EQ(summary_text(one_mesh(Bytes(1024), Bytes(2048), Bytes(512)), {}),
            "plan 'p', 1 rank\n"
            "\n"
            "memory of a rank  parameters  optimizer state  activations      all\n"
            "each rank              1 KiB            2 KiB        512 B  3.5 KiB\n"
            "sent in a step: nothing\n"
            "bubble: none, without a pipeline\n"
            "waste: none found\n"
            "\n"
            "largest parameters  bytes  largest of the arena, before sharing  bytes\n");
}

TEST(Summary, SaysWhatLibrariesTakeBesideThePlan) {
  PlanNumbers numbers = one_mesh(Bytes(1024), Bytes(2048), Bytes(512));
  numbers.reserve = Bytes(2048);
  EXPECT_THAT(summary_text(numbers, {}),
              HasSubstr("512 B  3.5 KiB\n"
                        "libraries take 2 KiB of its device beside that\n"
                        "sent in a step: nothing\n"));
}

TEST(Summary, OfStagesWithOneMicroBatchSaysThatTheyWait) {
  PlanNumbers numbers = one_mesh(Bytes(1024), Bytes(0), Bytes(0));
  numbers.memory.push_back({"last", Bytes(1024), Bytes(0), Bytes(0)});
  EXPECT_THAT(
      summary_text(numbers, {}),
      HasSubstr("bubble: with one micro-batch each stage waits for results of the others\n"));
}

TEST(Summary, SaysTheUnitOfAStepInAPipeline) {
  PlanNumbers numbers = one_mesh(Bytes(1024), Bytes(0), Bytes(0));
  PipelineWorth& worth = numbers.pipeline.emplace();
  worth.step = 5.94;
  worth.bound.time = 5.3;
  EXPECT_THAT(
      summary_text(numbers, {}),
      HasSubstr("; a step takes 5.94 times a micro-batch on the busiest device, in any order "
                "at least 5.30 times\n"));
}

TEST(Summary, JoinsLikeLayersAndSumsTheirBytes) {
  PlanNumbers numbers = one_mesh(Bytes(24), Bytes(0), Bytes(0));
  numbers.parameters = {{"head", "f32[4]", "", "all", 1, Bytes(16)},
                        {"blocks.0.relu", "f32[1]", "", "all", 1, Bytes(10)},
                        {"blocks.1.relu", "f32[1]", "", "all", 1, Bytes(10)}};
  const std::string text = summary_text(numbers, RepeatedRows(layers(2)));
  EXPECT_THAT(text, HasSubstr("\nblocks.{0,1}.relu  x2   20 B\nhead                    16 B\n"));
  // Those of two meshes are two lines: each has its own ranks.
  numbers.parameters[2].mesh = "last";
  EXPECT_THAT(summary_text(numbers, RepeatedRows(layers(2))), Not(HasSubstr("x2")));
}

/// As much of everything as a plan may have.
PlanNumbers many() {
  PlanNumbers numbers;
  for (int i = 0; i < 50; ++i) {
    const std::string name = "n" + std::to_string(i);
    numbers.memory.push_back({name, Bytes(i), Bytes(i), Bytes(1)});
    numbers.sent.push_back({name, 1, 2, Bytes(100 - i)});
    for (auto* list : {&numbers.parameters, &numbers.activations, &numbers.exchanges})
      list->push_back({name, "", "", "", 1, Bytes(i)});
    numbers.notes.push_back({ShardingNote::Kind::kWaste, "", "waste " + name});
  }
  numbers.reserve = Bytes(1);
  numbers.all_sent = {"", 50, 100, Bytes(3775)};  // 51 + ... + 100
  return numbers;
}

TEST(Summary, HasLessThan40LinesWhateverThePlanHas) {
  const std::string text = summary_text(many(), {});
  EXPECT_LT(line_count(text), 40);
  EXPECT_THAT(text, HasSubstr("n49 (most of 50 meshes)"));
  EXPECT_THAT(text, HasSubstr("n0 (least of 50 meshes)"));
  EXPECT_THAT(text, HasSubstr("over other axes         47       94         3.4 KiB\n"));
  EXPECT_THAT(text, HasSubstr("waste: waste n0 (49 more notes)\n"));
  EXPECT_THAT(text, HasSubstr("\nn49 "));
  EXPECT_THAT(text, Not(HasSubstr("\nn39 ")));  // the eleventh
}

TEST(Summary, HasAllMeshesAndAxesAsADocument) {
  const Document document = summary_document(many(), {});
  EXPECT_EQ(document.find("memory")->as_list().size(), 50u);
  EXPECT_EQ(document.find("sent")->as_list().size(), 50u);
  EXPECT_EQ(document.find("largest")->find("exchanges")->as_list().size(), 10u);
  EXPECT_TRUE(document.find("bubble")->is_null());
}

}  // namespace
}  // namespace tessera
