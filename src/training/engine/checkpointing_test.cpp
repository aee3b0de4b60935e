// A run that stops and resumes equals the run that never stopped; and a checkpoint of any plan can
// be loaded under any other.
#include "training/engine/checkpointing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/testing/error.h"
#include "training/checkpoint/joint_load.h"
#include "training/checkpoint/testing/simulated_disk.h"
#include "training/engine/testing/losses.h"
#include "training/engine/testing/runs.h"
#include "training/fit/fit.h"

namespace tessera {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kPlans = {"serial",      "dp4",   "tp4",   "tp3",
                                         "dp2-tp2",     "dp3",   "pp2",   "pp2-dp2",
                                         "pp2-dp2-tp2", "dp2:1", "tp2:1", "dp2-tp1:3"};

/// An engine whose variables are not yet initialized.
Engine empty_engine(const Plan& plan, const RunConfig& config, Purpose purpose = Purpose::kTrain) {
  return Engine(config, plan, small_text(config.model.context),
                {.runtime = {}, .purpose = purpose, .initialize = false});
}

void save(Engine& engine, FileSystem& disk, int keep_last = 0) {
  CheckpointFolder folder(disk, "c");
  save_checkpoint(engine, folder, keep_last);
}

Checkpoint latest(FileSystem& disk) {
  return Checkpoint(disk, find_checkpoint(disk, "c"));
}

/// The names of the variables whose bits differ.
std::vector<std::string> different(const TensorMap& a, const TensorMap& b) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    if (found == b.end() || !(found->second.type() == tensor.type()) ||
        std::memcmp(tensor.data(), found->second.data(),
                    static_cast<size_t>(byte_size(tensor.type()).value())) != 0)
      names.push_back(name);
  }
  return names;
}

/// The rounding error of a loss: the mean of `tokens` logs, each of a sum of `vocabulary`
/// exponentials of sums of `width` products, whose errors add.
double rounding_of(double loss) {
  return loss * 0x1p-24 * (256 + 4 * 32);
}

using error_testing::message_of;

TEST(Checkpointing, ResumedLossesAreThoseOfTheRunThatNeverStopped) {
  // Dropout, Adam's moments, the clip and the schedule all depend on the step or on earlier steps.
  RunConfig config = tiny_gpt();
  config.optimizer.schedule.kind = ScheduleKind::kCosine;
  config.optimizer.schedule.warmup = 7;
  for (const std::string plan : {"serial", "dp2-tp2", "pp2-dp2-m2"}) {
    SimulatedDisk disk;
    Engine whole(config, plan_of("gpt", plan), small_text());
    fit(whole, 5);
    save(whole, disk);
    const std::vector<double> expected = losses(whole, 6);
    Engine resumed = empty_engine(plan_of("gpt", plan), config);
    restore(resumed, latest(disk));
    EXPECT_EQ(resumed.step_count(), 5);
    EXPECT_EQ(losses(resumed, 6), expected)
        << plan;  // to the last bit: the same numbers in the same order
    EXPECT_EQ(different(whole.variables(), resumed.variables()), std::vector<std::string>{})
        << plan;
  }
}

TEST(Checkpointing, TheLearningRateThatWasSetIsThatOfTheRestoredRunToo) {
  SimulatedDisk set, unset;
  Engine engine(tiny_mlp(), serial_plan(), small_text());
  save(engine, unset);
  engine.set_learning_rate(0.1);
  save(engine, set);
  EXPECT_EQ(latest(unset).state().find("learning_rate"), nullptr) << "as before there was one";

  Engine other(tiny_mlp(), serial_plan(), small_text());
  restore(other, latest(set));
  EXPECT_EQ(other.own_learning_rate(), 0.1);
  EXPECT_EQ(other.step().learning_rate, 0.1f);
  // The engine itself goes back to the schedule.
  restore(engine, latest(unset));
  EXPECT_EQ(engine.own_learning_rate(), std::nullopt);
  EXPECT_EQ(engine.step().learning_rate, static_cast<float>(tiny_mlp().optimizer.schedule.peak));
}

/// The notes about passes over the serial graph that differ from those of the plan.
std::vector<std::string> notes_of_passes(const Engine& engine) {
  std::vector<std::string> texts;
  for (const ShardingNote& note : engine.compiled().sharded.notes)
    if (note.kind == ShardingNote::Kind::kPasses) texts.push_back(note.text);
  return texts;
}

// A plan must fit the graph before the passes over it; that they make another graph is only noted.
TEST(Checkpointing, ARunGoesOnWithoutThePassesOverTheSerialGraph) {
  const RunConfig config = tiny_gpt();
  for (const std::string plan : {"serial", "dp2-tp2", "pp2-dp2-m2"}) {
    SimulatedDisk disk;
    Engine whole(config, plan_of("gpt", plan), small_text());
    fit(whole, 3);
    save(whole, disk);
    const std::vector<double> expected = losses(whole, 3);
    Plan stored = parse_plan(latest(disk).plan(), "plan.json");
    stored.disabled_passes = {"fold", "algebra", "cse", "dead-code", "recompute"};
    Engine resumed(config, stored, small_text(), {.runtime = {}, .initialize = false});
    EXPECT_GT(resumed.compiled().graph.ops().size(), whole.compiled().graph.ops().size());
    EXPECT_THAT(notes_of_passes(resumed),
                testing::ElementsAre(HasSubstr("after no passes the graph is another one")));
    EXPECT_THAT(notes_of_passes(whole), testing::IsEmpty());
    restore(resumed, latest(disk));
    EXPECT_EQ(losses(resumed, 3), expected) << plan;
    EXPECT_EQ(different(whole.variables(), resumed.variables()), std::vector<std::string>{})
        << plan;
  }
}

TEST(Checkpointing, ARunOfStepsInPartsGoesOnAtItsBatchWithoutHalfASum) {
  const RunConfig config = tiny_gpt();
  const auto train = [](Engine& engine, int64_t steps) {
    std::vector<double> list;
    for (const StepResult& step : fit(engine, {.steps = steps, .accumulate = 2}).steps)
      list.push_back(step.loss);
    return list;
  };
  SimulatedDisk disk;
  Engine whole(config, plan_of("gpt", "dp2"), small_text());
  train(whole, 3);  // six batches
  save(whole, disk);
  const std::vector<double> expected = train(whole, 3);
  Engine resumed = empty_engine(plan_of("gpt", "dp2"), config);
  restore(resumed, latest(disk));
  EXPECT_EQ(resumed.position().batch, 6);
  EXPECT_EQ(train(resumed, 3), expected);
  // The engine is in the middle of a step: its accumulated gradients belong to another run.
  Engine busy(config, plan_of("gpt", "dp2"), small_text());
  busy.accumulate(busy.next_batch());
  restore(busy, latest(disk));
  EXPECT_EQ(busy.accumulated(), 0);
  EXPECT_EQ(train(busy, 3), expected);
}

TEST(Checkpointing, ARunGoesOnThroughTheEndOfAnEpoch) {
  RunConfig config = tiny_mlp();
  config.train.batch = small_text()->train->samples() / 2;  // 2 steps an epoch
  SimulatedDisk disk;
  Engine whole(config, plan_of("mlp", "serial"), small_text());
  fit(whole, 3);
  save(whole, disk);
  const Checkpoint checkpoint = latest(disk);
  const Document& data = *checkpoint.state().find("data");
  EXPECT_EQ(data.find("epoch")->as_int(), 1);
  EXPECT_EQ(data.find("step_of_epoch")->as_int(), 1);
  const std::vector<double> expected = losses(whole, 3);
  Engine resumed = empty_engine(plan_of("mlp", "serial"), config);
  restore(resumed, latest(disk));
  EXPECT_EQ(losses(resumed, 3), expected);
}

class Shuffled : public testing::TestWithParam<Shuffle> {};
INSTANTIATE_TEST_SUITE_P(Checkpointing, Shuffled,
                         testing::Values(Shuffle::kNone, Shuffle::kBeforeSplit,
                                         Shuffle::kAfterSplit),
                         [](const auto& given) { return std::string(to_text(given.param)); });

TEST_P(Shuffled, UnderAnotherPlanTheBatchesAreTheSame) {
  RunConfig config = tiny_gpt();
  config.data.shuffle = GetParam();
  for (const auto& [stored, plan] : std::vector<std::pair<std::string, std::string>>{
           {"dp2", "serial"}, {"dp2", "dp3"}, {"dp2", "tp4"}, {"dp2", "dp2:1"}, {"dp2:1", "dp2"}}) {
    SimulatedDisk disk;
    Engine whole(config, plan_of("gpt", stored), small_text());
    fit(whole, 3);
    save(whole, disk);
    const std::vector<double> expected = losses(whole, 4);
    Engine resumed = empty_engine(plan_of("gpt", plan), config);
    restore(resumed, latest(disk));
    for (int64_t step = 3; step < 7; ++step)
      for (int64_t row = 0; row < config.train.batch; ++row)
        ASSERT_EQ(resumed.batches().sampler().sample(step, row),
                  whole.batches().sampler().sample(step, row))
            << plan;
    const std::vector<double> found = losses(resumed, 4);
    // Each step adds its own rounding error to those of the earlier steps.
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], rounding_of(expected[i]) * static_cast<double>(i + 1))
          << plan;
  }
}

/// The bytes that all ranks of an engine need.
int64_t bytes_needed(Engine& engine) {
  std::atomic<int64_t> bytes{0};
  engine.runtime().on_every_rank([&](Rank, std::span<const VariablePart> held) {
    for (const VariablePart& part : held)
      bytes += element_count(part.box.shape()) * size_of(part.whole.dtype);
  });
  return bytes;
}

/// A checkpoint of every plan is loaded under every plan. Each engine is compiled once.
TEST(Checkpointing, WhateverPlanStoredACheckpointAnyOtherLoadsIt) {
  struct Stored {
    SimulatedDisk disk;
    TensorMap variables;
    double evaluation = 0;
  };
  const RunConfig config = tiny_gpt();
  std::vector<Engine> engines;
  std::vector<std::unique_ptr<Stored>> stored;
  for (const std::string& plan : kPlans) {
    Engine& engine = engines.emplace_back(config, plan_of("gpt", plan), small_text());
    stored.push_back(std::make_unique<Stored>());
    fit(engine, 2);
    save(engine, stored.back()->disk);
    stored.back()->variables = engine.variables();
    stored.back()->evaluation = engine.evaluate(1).loss;
  }
  for (size_t to = 0; to < kPlans.size(); ++to)
    for (size_t from = 0; from < kPlans.size(); ++from) {
      SCOPED_TRACE("from " + kPlans[from] + " to " + kPlans[to]);
      const Checkpoint checkpoint = latest(stored[from]->disk);
      restore(engines[to], checkpoint);
      EXPECT_EQ(checkpoint.bytes_read().value(), bytes_needed(engines[to]));  // not one byte more
      EXPECT_EQ(different(stored[from]->variables, engines[to].variables()),
                std::vector<std::string>{});
      const double loss = engines[to].evaluate(1).loss;
      if (from == to)
        EXPECT_EQ(loss, stored[from]->evaluation);
      else
        EXPECT_NEAR(loss, stored[from]->evaluation, rounding_of(loss));
    }
}

/// Divides every variable of the model by rows over `ranks`.
Plan rows_over(int ranks) {
  Plan plan;
  plan.name = "rows" + std::to_string(ranks);
  if (ranks == 1) return plan;
  plan.meshes =
      one_mesh(std::make_shared<const Mesh>(Shape{ranks}, std::vector<std::string>{"tp"}));
  for (const char* name : {"hidden.0.weight", "hidden.1.weight", "head.weight"})
    plan.marks.push_back(shard_tensor(name, "P(\"tp\")"));
  return plan;
}

/// Divides every variable of the model by columns over `ranks`.
Plan columns_over(int ranks) {
  Plan plan = rows_over(ranks);
  plan.name = "columns" + std::to_string(ranks);
  for (Mark& mark : plan.marks) mark.placement = "P(None, \"tp\")";
  return plan;
}

TEST(Checkpointing, EveryRankReadsWhatItNeedsAndNothingElse) {
  RunConfig config = tiny_mlp();
  // hidden.1.weight is 1 MiB: its checksums are of 4 KiB, 2 of its 512 rows.
  config.model.width = 512;
  config.optimizer.kind = OptimizerKind::kSgd;
  std::vector<Engine> engines;
  for (int ranks : {1, 2, 3}) engines.push_back(Engine(config, rows_over(ranks), small_text()));
  for (int ranks : {2, 3}) engines.push_back(Engine(config, columns_over(ranks), small_text()));
  for (Engine& from : engines) {
    SimulatedDisk disk;
    save(from, disk);
    for (Engine& to : engines) {
      SCOPED_TRACE("from " + from.plan().name + " to " + to.plan().name);
      to.runtime().on_every_rank([&](Rank, std::span<const VariablePart> parts) {
        const Checkpoint own = latest(disk);  // one per rank, so that each counts for itself
        JointLoad load(own);
        int64_t needed = 0;
        for (const VariablePart& part : parts) {
          load.load_box(part.name, part.box, part.data, part.first_holder);
          needed += element_count(part.box.shape()) * size_of(part.whole.dtype);
        }
        EXPECT_EQ(own.bytes_read().value(), needed);
      });
      const Checkpoint checkpoint = latest(disk);
      restore(to, checkpoint);  // they load together and verify the data
      EXPECT_EQ(checkpoint.bytes_read().value(), bytes_needed(to));
      EXPECT_EQ(different(from.variables(), to.variables()), std::vector<std::string>{});
    }
  }
}

TEST(Checkpointing, EveryElementIsStoredOnce) {
  for (const std::string& plan : kPlans) {
    SimulatedDisk disk;
    Engine engine(tiny_gpt(), plan_of("gpt", plan), small_text());
    save(engine, disk);
    int64_t stored = 0, whole = 0;
    const Checkpoint checkpoint = latest(disk);
    for (const auto& [name, tensor] : checkpoint.index().tensors) {
      whole += element_count(tensor.whole.shape);
      for (const IndexPart& part : tensor.parts) stored += element_count(part.box.shape());
    }
    EXPECT_EQ(stored, whole) << plan;  // the index checks that the parts tile
    int64_t parameters = 0;
    for (const Variable& variable : engine.graph().variables())
      parameters += element_count(engine.graph().type(variable.value).shape);
    EXPECT_EQ(whole, parameters) << plan;
  }
}

TEST(Checkpointing, EvaluationNeedsNeitherTheOptimizerNorTheTrainingStep) {
  SimulatedDisk disk;
  Engine trained(tiny_gpt(), plan_of("gpt", "dp2-tp2"), small_text());
  fit(trained, 3);
  save(trained, disk);
  const Engine::Evaluation expected = trained.evaluate(2);
  std::vector<std::string> parameters;
  for (const Variable& variable : trained.graph().variables())
    if (variable.trainable) parameters.push_back(trained.graph().value(variable.value).name);
  std::sort(parameters.begin(), parameters.end());
  for (const std::string& plan : kPlans) {
    Engine engine = empty_engine(plan_of("gpt", plan), tiny_gpt(), Purpose::kEvaluate);
    restore(engine, latest(disk));
    EXPECT_EQ(engine.step_count(), 3);
    EXPECT_EQ(engine.runtime().variable_names(), parameters) << plan;
    const Engine::Evaluation found = engine.evaluate(2);
    EXPECT_EQ(found.tokens, expected.tokens) << plan;
    EXPECT_NEAR(found.loss, expected.loss, rounding_of(expected.loss)) << plan;
    EXPECT_THROW(engine.step(), UserError);
  }
}

TEST(Checkpointing, TextIsWrittenTheSameUnderEveryPlan) {
  SimulatedDisk disk;
  Engine trained(tiny_gpt(), serial_plan(), small_text());
  fit(trained, 10);
  save(trained, disk);
  const std::vector<SamplingOptions> ways = {
      {.temperature = 0},
      {.temperature = 0.8, .seed = 3},
      {.top_k = 5, .seed = 4},
      {.top_p = 0.7, .seed = 5},
      {.temperature = 1.3, .top_k = 20, .top_p = 0.9, .seed = 6}};
  for (const std::string& plan : kPlans) {
    Engine engine = empty_engine(plan_of("gpt", plan), tiny_gpt(), Purpose::kEvaluate);
    restore(engine, latest(disk));
    for (const SamplingOptions& way : ways)
      EXPECT_EQ(engine.text().generate({10, 20, 30}, 20, way),
                trained.text().generate({10, 20, 30}, 20, way))
          << plan << ", seed " << way.seed;
  }
}

TEST(Checkpointing, TheStoredRunIsTheRun) {
  RunConfig config = tiny_gpt();
  config.data.path = {"text.txt"};
  config.data.tokens = "characters";
  auto data = std::make_shared<RunData>(*small_text());
  data->vocabulary = Vocabulary::characters_of("aäz€");
  SimulatedDisk disk;
  Engine engine(config, plan_of("gpt", "pp2-dp2"), data);
  save(engine, disk);
  const StoredRun stored = stored_run(latest(disk));
  EXPECT_EQ(to_json(resolved_settings(stored.config)), to_json(resolved_settings(config)));
  EXPECT_EQ(to_json(to_document(stored.plan, engine.graph())),
            to_json(to_document(engine.plan(), engine.graph())));
  EXPECT_EQ(stored.plan.name, "pp2-dp2");
  EXPECT_EQ(stored.vocabulary.value().symbols(), (std::vector<std::string>{"a", "z", "ä", "€"}));
  EXPECT_EQ(stored_run(latest(disk), {"train.evaluate_batches=3"}).config.train.evaluate_batches,
            3);
  EXPECT_THROW(stored_run(latest(disk), {"train.evaluate_batch=3"}), UserError);
}

TEST(Checkpointing, AnotherModelOrAnotherTextIsRefused) {
  SimulatedDisk disk;
  Engine engine(tiny_mlp(), serial_plan(), small_text());
  save(engine, disk);
  RunConfig wide = tiny_mlp();
  wide.model.width = 48;
  Engine other_model = empty_engine(serial_plan(), wide);
  EXPECT_THAT(
      message_of([&] { restore(other_model, latest(disk)); }),
      testing::AllOf(
          HasSubstr("65 the checkpoint 'c/step-00000000' does not fit the model: model.width was "
                    "32 and is 48\n"),
          HasSubstr("'head.weight' is f32[32,50], wanted f32[48,50]")));
  RunConfig longer = tiny_mlp();
  longer.train.batch += 1;
  longer.train.seed = 8;
  Engine other_data = empty_engine(serial_plan(), longer);
  EXPECT_EQ(message_of([&] { restore(other_data, latest(disk)); }),
            "65 the batch is not that of the checkpoint 'c/step-00000000'\n  why: batch was 8 and "
            "is 9; seed was 7 and is 8\n"
            "  fix: resume with the text and the settings of the stored run: its next batches "
            "follow from them");
  longer.train.batch -= 1;
  Engine other_order = empty_engine(serial_plan(), longer);
  EXPECT_THAT(message_of([&] { restore(other_order, latest(disk)); }),
              HasSubstr("65 the order of the data is not that of the checkpoint"));
}

TEST(Checkpointing, AnotherOptimizerIsNamed) {
  SimulatedDisk disk;
  Engine engine(tiny_mlp(), serial_plan(), small_text());
  save(engine, disk);
  RunConfig other = tiny_mlp();
  const bool was_sgd = other.optimizer.kind == OptimizerKind::kSgd;
  other.optimizer.kind = was_sgd ? OptimizerKind::kAdamW : OptimizerKind::kSgd;
  Engine changed = empty_engine(serial_plan(), other);
  EXPECT_THAT(message_of([&] { restore(changed, latest(disk)); }),
              HasSubstr("does not fit the model: optimizer.kind was "));
}

TEST(Checkpointing, TheLatestIsFoundInARunInItsCheckpointsAndByItsOwnName) {
  SimulatedDisk disk;
  Engine engine(tiny_mlp(), serial_plan(), small_text());
  CheckpointFolder folder(disk, "run/checkpoints");
  save_checkpoint(engine, folder, 0);
  fit(engine, 2);
  save_checkpoint(engine, folder, 0);
  for (const char* path : {"run", "run/", "run/checkpoints", "run/checkpoints/step-00000002"})
    EXPECT_EQ(find_checkpoint(disk, path), "run/checkpoints/step-00000002") << path;
  EXPECT_EQ(find_checkpoint(disk, "run/checkpoints/step-00000000"),
            "run/checkpoints/step-00000000");
  EXPECT_THAT(message_of([&] { find_checkpoint(disk, "walk"); }),
              HasSubstr("66 cannot read 'walk'"));
  disk.make_folder("fresh/checkpoints");
  EXPECT_THAT(message_of([&] { find_checkpoint(disk, "fresh"); }),
              HasSubstr("66 there is no checkpoint in 'fresh/checkpoints'"));
  disk.truncate("run/checkpoints/step-00000002/index.json", 10);
  EXPECT_EQ(find_checkpoint(disk, "run"), "run/checkpoints/step-00000000");
  disk.truncate("run/checkpoints/step-00000000/index.json", 10);
  EXPECT_THAT(message_of([&] { find_checkpoint(disk, "run"); }),
              testing::AllOf(HasSubstr("65 no checkpoint in 'run/checkpoints' is complete"),
                             HasSubstr("step-00000002/index.json' is damaged")));
}

}  // namespace
}  // namespace tessera
