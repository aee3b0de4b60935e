#include "plan/plan.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

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
}

Plan plan_on(const std::string& axes) {
  return parse_plan(parse_json("{\"mesh\": {" + axes + "}, \"marks\": []}", "plan.json"),
                    "plan.json");
}

TEST(Plan, AListInPlaceOfASizeIsTheWeightsOfTheParts) {
  const Plan plan = plan_on("\"dp\": [4, 2], \"tp\": 2");
  EXPECT_EQ(mesh_text(plan), "dp=2:1 tp=2");
  EXPECT_EQ(plan.rank_count(), 4);
  const Document written = to_document(plan, Graph());
  EXPECT_EQ(to_json(*written.find("mesh")), "{\"dp\":[2,1],\"tp\":2}");
  EXPECT_EQ(*parse_plan(written, "plan.json").meshes[0].mesh, *plan.meshes[0].mesh);
  EXPECT_EQ(mesh_text(plan_on("\"dp\": [5, 5]")), "dp=2") << "equal weights are none";
}

TEST(Plan, RefusesASizeThatIsNeitherANumberNorWeights) {
  for (const char* axes : {"\"dp\": [2, \"1\"]", "\"dp\": []", "\"dp\": \"2:1\"",
                           "\"dp\": [1.5, 1]", "\"dp\": [2, 0]", "\"mb\": [2, 1]"})
    EXPECT_THROW(plan_on(axes), UserError) << axes;
}

TEST(Plan, AllReduceNamesAnAlgorithm) {
  EXPECT_EQ(plan_of("").all_reduce, AllReduceAlgorithm::kAuto);
  EXPECT_EQ(plan_of("\"all_reduce\": \"hierarchical\", ").all_reduce,
            AllReduceAlgorithm::kHierarchical);
  EXPECT_EQ(to_document(plan_of("\"all_reduce\": \"one-shot\", "), Graph())["all_reduce"],
            Document("one-shot"));
}

TEST(Plan, CostIsTheTableOfACostFile) {
  const std::string keys = "\"cost\": {\"links\": {\"latency\": \"10 us\"}}, ";
  CostModel expected;
  expected.links.any.latency = Seconds(10e-6);
  EXPECT_EQ(plan_of(keys).cost, expected);
  EXPECT_EQ(parse_plan(to_document(plan_of(keys), Graph()), "plan.json").cost, expected);
  EXPECT_EQ(to_document(plan_of(""), Graph()).find("cost"), nullptr) << "the default";
}

TEST(Plan, BucketsAndPrefetchedExchangesAreInMib) {
  EXPECT_EQ(plan_of("").bucket, Bytes(25 << 20));
  EXPECT_EQ(plan_of("").prefetch_window, Bytes(32 << 20));
  const Plan plan = plan_of("\"bucket_mib\": 1, \"prefetch_mib\": 0.5, ");
  EXPECT_EQ(plan.bucket, Bytes(1 << 20));
  EXPECT_EQ(plan.prefetch_window, Bytes(1 << 19));
  const Document written = to_document(plan, Graph());
  EXPECT_EQ(*written.find("bucket_mib"), Document(1));
  EXPECT_EQ(*written.find("prefetch_mib"), Document(0.5));
  EXPECT_EQ(to_document(plan_of(""), Graph()).find("bucket_mib"), nullptr);
}

TEST(Plan, HalosAreExchangedRecomputedOrTheCheaper) {
  EXPECT_EQ(plan_of("").halos, HaloForm::kAuto);
  for (const HaloForm form : {HaloForm::kExchange, HaloForm::kRecompute}) {
    const Plan plan = plan_of("\"halos\": \"" + std::string(to_text(form)) + "\", ");
    EXPECT_EQ(plan.halos, form);
    EXPECT_EQ(parse_plan(to_document(plan, Graph()), "plan.json").halos, form);
  }
}

Plan plan_of_marks(const std::string& rest) {
  return parse_plan(parse_json("{\"mesh\": {\"tp\": 2}, " + rest + "}", "plan.json"), "plan.json");
}

TEST(Plan, MarksNameTensorsOpsAndModulesAndHowLongCopiesLive) {
  const Plan plan = plan_of_marks(
      "\"marks\": [{\"tensor\": \"w\", \"copies\": \"pass\"},"
      "{\"module\": \"attn\", \"placement\": \"-> [P()]\"}]");
  EXPECT_EQ(plan.marks[0].copies, CopyLife::kPass);
  EXPECT_EQ(plan.marks[1].kind, Mark::Kind::kModule);
  EXPECT_EQ(parse_plan(to_document(plan, Graph()), "plan.json").marks, plan.marks);
  EXPECT_THROW(plan_of_marks("\"marks\": [{\"op\": \"w\", \"copies\": \"pass\"}]"), UserError);
  EXPECT_THROW(plan_of_marks("\"marks\": [{\"op\": \"w\", \"module\": \"v\", \"mesh\": \"a\"}]"),
               UserError);
}

TEST(Plan, HasMarksOrResolvedShardings) {
  const std::string shardings = "\"shardings\": {\"train\": {\"ops\": {\"m@tp\": [\"y\"]}}}";
  const Plan plan = plan_of_marks(shardings);
  EXPECT_EQ(plan.shardings->find(kTrainSection)->ops.front().text, "m@tp");
  EXPECT_EQ(parse_plan(to_document(plan, Graph()), "plan.json").shardings, plan.shardings);
  EXPECT_THROW(plan_of_marks(shardings + ", \"marks\": [{\"tensor\": \"w\", \"mesh\": \"a\"}]"),
               UserError);
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
