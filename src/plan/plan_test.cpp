#include "plan/plan.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "lower/lower.h"

namespace tessera {
namespace {

Plan plan_of(const std::string& keys) {
  return parse_plan(
      parse_json("{\"format\": 1, \"mesh\": {\"tp\": 2}, " + keys + "\"marks\": []}", "plan.json"),
      "plan.json");
}

/// The collective_matmul of a plan that was written and read again.
int64_t written_and_read(const std::string& keys) {
  return parse_plan(to_document(plan_of(keys), Graph()), "plan.json").collective_matmul;
}

TEST(Plan, CollectiveMatmulIsOffAutoOrANumberOfChunks) {
  EXPECT_EQ(plan_of("").collective_matmul, 1);
  EXPECT_EQ(plan_of("\"collective_matmul\": \"off\", ").collective_matmul, 1);
  EXPECT_EQ(plan_of("\"collective_matmul\": \"auto\", ").collective_matmul, kAutoChunks);
  EXPECT_EQ(plan_of("\"collective_matmul\": 4, ").collective_matmul, 4);
  for (const char* keys : {"", "\"collective_matmul\": \"auto\", ", "\"collective_matmul\": 4, "})
    EXPECT_EQ(written_and_read(keys), plan_of(keys).collective_matmul) << keys;
  EXPECT_EQ(compile_options(plan_of("\"collective_matmul\": 4, ")).collective_matmul.chunks, 4);
}

TEST(Plan, AllReduceNamesAnAlgorithm) {
  EXPECT_EQ(plan_of("").all_reduce, AllReduceAlgorithm::kAuto);
  EXPECT_EQ(plan_of("\"all_reduce\": \"hierarchical\", ").all_reduce,
            AllReduceAlgorithm::kHierarchical);
  EXPECT_EQ(to_document(plan_of("\"all_reduce\": \"one-shot\", "), Graph())["all_reduce"],
            Document("one-shot"));
}

std::string message_of(const std::string& keys) {
  try {
    plan_of(keys);
  } catch (const UserError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
    return error.what();
  }
  return "no error";
}

TEST(Plan, AScheduleNeedsSeveralMicroBatches) {
  for (const char* schedule : {"zb-v", "f-then-b", "auto"}) {
    const std::string key = std::string("\"schedule\": \"") + schedule + "\", ";
    EXPECT_EQ(message_of(key), std::string("plan.json has schedule '") + schedule +
                                   "' and one micro-batch\n"
                                   "  why: a schedule orders the passes of several micro-batches\n"
                                   "  fix: set micro_batches to 2 or more, or remove 'schedule'");
    EXPECT_EQ(message_of("\"micro_batches\": 2, " + key), "no error");
  }
  EXPECT_EQ(message_of("\"schedule\": \"1f1b\", "), "no error");  // the default, which files write
}

TEST(Plan, TasksAreAWordOrPatternsAndAreWrittenAsTheyAreRead) {
  using Kind = TaskGranularity::Kind;
  EXPECT_EQ(plan_of("").tasks, (TaskGranularity{Kind::kRole}));
  EXPECT_EQ(plan_of("\"tasks\": \"role\", ").tasks, (TaskGranularity{Kind::kRole}));
  EXPECT_EQ(plan_of("\"tasks\": \"layer\", ").tasks, (TaskGranularity{Kind::kLayer}));
  EXPECT_EQ(plan_of("\"tasks\": \"op\", ").tasks, (TaskGranularity{Kind::kOp}));
  EXPECT_EQ(plan_of("\"tasks\": [\"*.attn.*\", \"head\"], ").tasks,
            (TaskGranularity{Kind::kPatterns, {"*.attn.*", "head"}}));
  for (const char* keys : {"", "\"tasks\": \"layer\", ", "\"tasks\": [\"*.attn.*\", \"head\"], "})
    EXPECT_EQ(parse_plan(to_document(plan_of(keys), Graph()), "plan.json").tasks,
              plan_of(keys).tasks);
  EXPECT_EQ(
      message_of("\"tasks\": 3, "),
      "plan.json: tasks is 3\n"
      "  why: it says where tasks end: where the role changes, where a layer ends, after each "
      "op, or where ops stop to match a pattern\n"
      "  fix: write \"role\", \"layer\", \"op\" or a list of patterns such as "
      "[\"*.attn.*\"]");
  EXPECT_EQ(message_of("\"tasks\": [], ").substr(0, 22), "plan.json: tasks is []");
}

TEST(Plan, APatternOfTasksNamesAnOpOfTheModel) {
  const Graph graph = parse_graph("input x: f32[4]\nblocks.0.attn = relu(x): f32[4]\n");
  check_fits(plan_of("\"tasks\": [\"blocks.*\"], "), graph);
  try {
    check_fits(plan_of("\"tasks\": [\"blocks.0.atn\"], "), graph);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "the pattern 'blocks.0.atn' of 'tasks' in plan 'plan.json' names no op of this "
                 "model\n"
                 "  why: tasks end where ops stop to match it\n"
                 "  fix: did you mean 'blocks.0.attn'?");
  }
}

TEST(Plan, KeysAndValuesOfFormerVersionsAreRefusedWithTheirNewNames) {
  EXPECT_EQ(message_of("\"most_kept\": 4, "),
            "plan.json: the key 'most_kept' has a new name\n"
            "  why: it is now called 'max_in_flight'\n"
            "  fix: write 'max_in_flight' instead");
  EXPECT_EQ(message_of("\"sums\": \"direct\", "),
            "plan.json: the key 'sums' has a new name\n"
            "  why: it is now called 'all_reduce'\n"
            "  fix: write 'all_reduce' instead");
  EXPECT_EQ(message_of("\"all_reduce\": \"scattered\", "),
            "plan.json: all_reduce = \"scattered\" has a new name\n"
            "  why: the value 'scattered' is now called 'reduce-scatter-all-gather'\n"
            "  fix: set all_reduce to 'reduce-scatter-all-gather'");
}

}  // namespace
}  // namespace tessera
