// Compares divided While and If with the reference interpreter: every register outside of regions,
// results, and replicas bit for bit.
#include "ir/ops/control/control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/autodiff/gradient.h"
#include "ir/autodiff/testing/gradient_check.h"
#include "ir/ops/interpreter.h"
#include "tools/fuzz/fuzz.h"
#include "tools/fuzz/fuzz_case.h"

namespace tessera::fuzz {
namespace {

using testing::HasSubstr;

constexpr TensorType kScalar{DType::kF32, {}};

std::string failure_of(FuzzCase given) {
  given.seed = 7;
  CaseFaults faults;
  bool refused = false;
  faults.on_refusal = [&] { refused = true; };
  const auto failure = run_case(given, faults);
  return failure ? failure->text : refused ? "refused in micro-batches" : "";
}

FuzzCase on_mesh(const Graph& graph, std::string_view mesh, std::vector<Mark> marks = {},
                 int64_t micro_batches = 1) {
  FuzzCase given;
  given.graph = graph;
  given.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(mesh)));
  given.marks = std::move(marks);
  given.micro_batches = micro_batches;
  return given;
}

/// h[8, 12] goes through two matrices and tanh, `iterations` times, as in a recurrent layer.
Graph recurrent(int64_t iterations) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {8, 12}});
  const ValueId up = builder.variable("up", {DType::kF32, {12, 16}}, Initializer::normal(0, 0.3));
  const ValueId down =
      builder.variable("down", {DType::kF32, {16, 12}}, Initializer::normal(0, 0.3));
  const Loop loop = build_while(
      builder, {.carried = {x},
                .captured = {up, down},
                .body =
                    [](Builder& region, const RegionValues& values) {
                      const ValueId wide =
                          region.dot(values.carried[0], values.captured[0], "bi,ij->bj");
                      const ValueId bent = region.unary("tanh", wide);
                      return std::vector{region.dot(bent, values.captured[1], "bj,ji->bi")};
                    },
                .max_iterations = iterations,
                .name = "loop"});
  graph.add_output("h", loop.results[0]);
  graph.add_output("iterations", loop.iterations);
  const ValueId sum = builder.reduce_sum(loop.results[0], {0, 1}, "sum");
  graph.add_output("sum", sum);
  return graph;
}

TEST(While, OfAnyNumberOfIterationsIsTheSerialOneOnOneRank) {
  for (int64_t iterations : {0, 1, 5})
    EXPECT_EQ(failure_of(on_mesh(recurrent(iterations), "dp=1")), "") << iterations;
}

TEST(While, RunsUnderDataAndTensorParallelPlans) {
  for (int64_t iterations : {0, 1, 5}) {
    const Graph graph = recurrent(iterations);
    EXPECT_EQ(failure_of(on_mesh(graph, "dp=3", {shard_tensor("x", "P(\"dp\")")})), "")
        << iterations;
    EXPECT_EQ(failure_of(on_mesh(graph, "tp=4", {shard_tensor("up", "P(None, \"tp\")")})), "")
        << iterations;
    EXPECT_EQ(failure_of(on_mesh(graph, "tp=3", {shard_tensor("x", "P(None, \"tp\")")})), "")
        << iterations;
    EXPECT_EQ(failure_of(
                  on_mesh(graph, "dp=2 tp=2",
                          {shard_tensor("x", "P(\"dp\")"), shard_tensor("up", "P(None, \"tp\")")})),
              "")
        << iterations;
  }
}

TEST(While, RunsInMicroBatches) {
  EXPECT_EQ(failure_of(on_mesh(recurrent(3), "dp=2", {shard_tensor("x", "P(\"dp\")")}, 4)), "");
}

/// Halves x[6] as long as its norm is above 1. The number of iterations depends on the data, and
/// the predicate on all parts of it.
Graph until_small() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {6}});
  const ValueId floor = builder.constant(kScalar, 1, "floor");
  const auto goes_on = [](Builder& region, const RegionValues& values) {
    const ValueId square = region.mul(values.carried[0], values.carried[0]);
    const ValueId norm = region.reduce_sum(square, {0}, "norm");
    return std::vector{region.compare("gt", norm, values.captured[0])};
  };
  const auto halve = [](Builder& region, const RegionValues& values) {
    return std::vector{region.mul_scalar(values.carried[0], 0.5)};
  };
  const Loop loop = build_while(builder, {.carried = {x},
                                          .captured = {floor},
                                          .condition = goes_on,
                                          .body = halve,
                                          .max_iterations = {}});
  graph.add_output("small", loop.results[0]);
  graph.add_output("iterations", loop.iterations);
  return graph;
}

FuzzCase exact(FuzzCase given, double size) {
  given.exact = true;
  given.fills["x"] = {true, size, size};
  return given;
}

TEST(While, MakesAsManyIterationsAsTheDataAskFor) {
  // 6 x 8^2 = 384 > 1, and a quarter of it after each iteration: 96, 24, 6, 1.5, 0.375.
  const ReferenceTensor x{{DType::kF32, {6}}, std::vector<double>(6, 8.0)};
  const ReferenceValues values = interpret(until_small(), {{"x", x}});
  EXPECT_EQ(values.at("while").values, std::vector{5.0});
  EXPECT_EQ(values.at("while:1").values, std::vector<double>(6, 0.25));
  for (double size : {0, 1, 8, 100})
    for (std::string_view mesh : {"dp=1", "dp=2", "dp=4"})
      EXPECT_EQ(
          failure_of(exact(on_mesh(until_small(), mesh, {shard_tensor("x", "P(\"dp\")")}), size)),
          "")
          << mesh << " " << size;
}

TEST(While, WhosePredicateNeedsTheWholeBatchIsRefusedInMicroBatches) {
  const FuzzCase given = on_mesh(until_small(), "dp=2", {}, 2);
  try {
    compile(given.graph, Plan{.meshes = given.meshes, .micro_batches = 2, .marks = given.marks});
    FAIL() << "it was compiled";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "'while.condition.norm' inside a While or an If is needed for the whole batch at "
                 "once (op 'while.condition.compare' needs "
                 "[])\n"
                 "  why: the region is run for each micro-batch by itself\n"
                 "  fix: use one micro-batch, or let 'while.condition.norm' not depend on all rows "
                 "of the batch");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadConfig);
  }
}

/// a, b = b, a + b on vectors: each iteration exchanges the roles of the two carried values.
TEST(While, MayExchangeWhatItCarries) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {4}});
  const ValueId zero = builder.constant({DType::kF32, {4}}, 0, "zero");
  const Loop loop = build_while(builder, {.carried = {zero, x},
                                          .captured = {},
                                          .body =
                                              [](Builder& region, const RegionValues& values) {
                                                const ValueId sum = region.add(values.carried[0],
                                                                               values.carried[1]);
                                                return std::vector{values.carried[1], sum};
                                              },
                                          .max_iterations = 10});
  graph.add_output("fibonacci", loop.results[0]);
  const ReferenceTensor ones{{DType::kF32, {4}}, std::vector<double>(4, 1.0)};
  EXPECT_EQ(interpret(graph, {{"x", ones}}).at("while:1").values, std::vector<double>(4, 55.0));
  EXPECT_EQ(failure_of(exact(on_mesh(graph, "dp=3", {shard_tensor("x", "P(\"dp\")")}), 1)), "");
}

/// The matrix is transposed in every iteration: its rows become columns, which other ranks hold.
TEST(While, ReshardsInEachIterationWhatItsBodyTurns) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {6, 6}});
  const Loop loop = build_while(
      builder, {.carried = {x},
                .captured = {x},
                .body =
                    [](Builder& region, const RegionValues& values) {
                      const ValueId turned = region.transpose(values.carried[0], {1, 0});
                      return std::vector{region.sub(turned, values.captured[0])};
                    },
                .max_iterations = 50});
  graph.add_output("turned", loop.results[0]);
  for (std::string_view spec :
       {"P(\"a\")", "P(None, \"a\")", "P(\"a\", \"b\")", "P((\"a\",\"b\"))"})
    EXPECT_EQ(failure_of(on_mesh(graph, "a=2 b=3", {shard_tensor("x", std::string(spec))})), "")
        << spec;
}

/// Two stages on meshes of their own; the second has a loop over the results of the first.
TEST(While, IsAStageOfAPipeline) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {8, 4}});
  const ValueId w = builder.variable("w", {DType::kF32, {4, 4}}, Initializer::normal(0, 0.4));
  const ValueId first = builder.dot(x, w, "bi,ij->bj", "first");
  const auto body = [](Builder& region, const RegionValues& values) {
    const ValueId bent = region.unary("tanh", values.carried[0]);
    return std::vector{region.dot(bent, values.captured[0], "bi,ij->bj")};
  };
  const Loop loop = build_while(
      builder,
      {.carried = {first}, .captured = {w}, .body = body, .max_iterations = 3, .name = "second"});
  graph.add_output("y", loop.results[0]);
  for (int64_t micro_batches : {1, 2, 4}) {
    FuzzCase given =
        on_mesh(graph, "dp=2",
                {stage("first", "one"), stage("second*", "two"), shard_tensor("x", "P(\"dp\")")},
                micro_batches);
    const Mesh pair = parse_mesh("dp=2");
    given.meshes = {{"one", consecutive_mesh(pair, 0)}, {"two", consecutive_mesh(pair, 2)}};
    EXPECT_EQ(failure_of(given), "") << micro_batches;
  }
}

// ---- If ----

/// A graph that passes x or its square through a matrix, depending on the sign of the sum of x.
Graph by_sign() {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {4, 6}});
  const ValueId w = builder.variable("w", {DType::kF32, {6, 6}}, Initializer::normal(0, 0.4));
  const ValueId sum = builder.reduce_sum(x, {0, 1}, "sum");
  const ValueId zero = builder.constant(kScalar, 0, "zero");
  const ValueId predicate = builder.compare("ge", sum, zero, "positive");
  const std::vector<ValueId> results = build_if(
      builder,
      {.predicate = predicate,
       .captured = {x, w},
       .then_region = [](Builder&,
                         const RegionValues& values) { return std::vector{values.captured[0]}; },
       .else_region =
           [](Builder& region, const RegionValues& values) {
             const ValueId square = region.mul(values.captured[0], values.captured[0]);
             return std::vector{region.dot(square, values.captured[1], "bi,ij->bj")};
           },
       .name = "choice"});
  graph.add_output("y", results[0]);
  return graph;
}

TEST(If, RunsTheSameRegionOnAllRanks) {
  for (double size : {-1, 1})
    for (std::string_view spec : {"P(\"dp\")", "P(None, \"tp\")", "P(\"dp\", \"tp\")"}) {
      FuzzCase given = on_mesh(by_sign(), "dp=2 tp=3", {shard_tensor("x", std::string(spec))});
      given.fills["x"] = {false, size - 0.5, size + 0.5};
      EXPECT_EQ(failure_of(given), "") << spec << " " << size;
    }
}

/// The Collatz sequence: a number is halved when it is even, otherwise tripled and incremented,
/// until it is 1.
Graph collatz() {
  Graph graph;
  Builder builder(graph);
  const ValueId n = builder.input("n", {DType::kI32, {}});
  const auto constant = [](Builder& region, double value, std::string_view name) {
    return region.constant({DType::kI32, {}}, value, name);
  };
  const auto goes_on = [constant](Builder& region, const RegionValues& values) {
    const ValueId one = constant(region, 1, "end");
    return std::vector{region.compare("ne", values.carried[0], one)};
  };
  const auto body = [constant](Builder& region, const RegionValues& values) {
    const ValueId two = constant(region, 2, "two");
    const ValueId rest = region.op1("mod", {values.carried[0], two});
    const ValueId zero = constant(region, 0, "zero");
    const ValueId even = region.compare("eq", rest, zero);
    return build_if(region, {.predicate = even,
                             .captured = {values.carried[0], two},
                             .then_region =
                                 [](Builder& inner, const RegionValues& read) {
                                   return std::vector{
                                       inner.op1("floordiv", {read.captured[0], read.captured[1]})};
                                 },
                             .else_region =
                                 [constant](Builder& inner, const RegionValues& read) {
                                   const ValueId twice =
                                       inner.add(read.captured[0], read.captured[0]);
                                   const ValueId thrice = inner.add(twice, read.captured[0]);
                                   const ValueId more = constant(inner, 1, "more");
                                   return std::vector{inner.add(thrice, more)};
                                 }});
  };
  const Loop loop = build_while(
      builder,
      {.carried = {n}, .captured = {}, .condition = goes_on, .body = body, .max_iterations = {}});
  graph.add_output("iterations", loop.iterations);
  return graph;
}

TEST(If, InsideAWhileDecidesInEachIteration) {
  // 6, 3, 10, 5, 16, 8, 4, 2, 1.
  EXPECT_EQ(interpret(collatz(), {{"n", {{DType::kI32, {}}, {6}}}}).at("while").values,
            std::vector{8.0});
  for (double start : {1, 6, 27}) {
    FuzzCase given = on_mesh(collatz(), "dp=2");
    given.exact = true;
    given.fills["n"] = {true, start, start};
    EXPECT_EQ(failure_of(given), "") << start;
  }
}

// Found by fuzzing: each rank has a piece of each of the merged parts, and the If requested a
// kernel for such pieces.
TEST(If, TakesInOnePieceWhatLiesInChunks) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {3, 8}});
  const ValueId parts = builder.reshape(x, {3, 2, 4}, "parts");
  const ValueId merged = builder.reshape(parts, {3, 8}, "merged");
  const ValueId predicate = builder.input("predicate", {DType::kBool, {}});
  const auto bent = [](Builder& region, const RegionValues& values) {
    return std::vector{region.unary("tanh", values.captured[0])};
  };
  const auto turned = [](Builder& region, const RegionValues& values) {
    return std::vector{region.unary("neg", values.captured[0])};
  };
  graph.add_output("y", build_if(builder, {.predicate = predicate,
                                           .captured = {merged},
                                           .then_region = bent,
                                           .else_region = turned})[0]);
  const Mark inner = shard_tensor("parts", "P(None, None, \"tp\")");
  EXPECT_EQ(failure_of(on_mesh(graph, "tp=2", {inner})), "");
}

// ---- random numbers ----

TEST(While, DrawsOtherNumbersInEachIterationAndTheSameOnAnyMesh) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {4, 6}});
  const ValueId step = builder.input("step", {DType::kI32, {}});
  const auto body = [](Builder& region, const RegionValues& values) {
    return std::vector{region.random_uniform(values.captured[0], {4, 6}, "drawn", values.iteration),
                       values.carried[0]};
  };
  const Loop loop = build_while(
      builder, {.carried = {x, x}, .captured = {step}, .body = body, .max_iterations = 3});
  graph.add_output("last", loop.results[0]);
  graph.add_output("before", loop.results[1]);
  FuzzCase given = on_mesh(graph, "a=2 b=3", {shard_tensor("x", "P(\"a\", \"b\")")});
  given.fills["step"] = {true, 5, 5};
  given.exact = true;
  EXPECT_EQ(failure_of(given), "");
  const ReferenceValues values =
      interpret(graph, {{"x", {{DType::kF32, {4, 6}}, std::vector<double>(24, 0)}},
                        {"step", {{DType::kI32, {}}, {5}}}});
  EXPECT_NE(values.at("while:1").values, values.at("while:2").values);
}

// ---- gradients ----

/// Two graphs, one with a loop and one with its iterations written one after the other, with the
/// loss and the gradients of x, up and down.
struct Trained {
  Graph graph;
  std::vector<ValueId> gradients;
};

Trained control_trained(bool unrolled, int64_t iterations) {
  Trained result;
  Builder builder(result.graph);
  const ValueId x = builder.input("x", {DType::kF32, {8, 6}});
  const ValueId up = builder.variable("up", {DType::kF32, {6, 8}}, Initializer::normal(0, 0.5));
  const ValueId down = builder.variable("down", {DType::kF32, {8, 6}}, Initializer::normal(0, 0.5));
  const RegionMaker iteration = [](Builder& region, const RegionValues& values) {
    const ValueId wide = region.dot(values.carried[0], values.captured[0], "bi,ij->bj");
    const ValueId bent = region.unary("tanh", wide);
    const ValueId next = region.dot(bent, values.captured[1], "bj,ji->bi");
    return std::vector{region.add(next, values.carried[0])};
  };
  ValueId h = x;
  if (unrolled)
    for (int64_t i = 0; i < iterations; ++i) h = iteration(builder, {{}, {h}, {up, down}})[0];
  else
    h = build_while(builder, {.carried = {x},
                              .captured = {up, down},
                              .body = iteration,
                              .max_iterations = iterations,
                              .name = "loop"})
            .results[0];
  const ValueId square = builder.mul(h, h);
  const ValueId loss = builder.reduce_sum(square, {0, 1}, "loss");
  result.graph.add_output("loss", loss);
  result.gradients = differentiate(builder, loss, {x, up, down});
  for (size_t i = 0; i < 3; ++i)
    result.graph.add_output("gradient" + std::to_string(i), result.gradients[i]);
  return result;
}

TEST(WhileGradient, IsThatOfTheIterationsOneAfterTheOther) {
  for (int64_t iterations : {0, 1, 4}) {
    const Trained loop = control_trained(false, iterations),
                  rows = control_trained(true, iterations);
    ReferenceValues state = initial_variables(rows.graph, 3);
    ReferenceTensor x{{DType::kF32, {8, 6}}, {}};
    for (int i = 0; i < 48; ++i) x.values.push_back(std::sin(i));
    state["x"] = x;
    const ReferenceValues a = interpret(loop.graph, state), b = interpret(rows.graph, state);
    for (size_t g = 0; g < 3; ++g) {
      const auto& got = a.at(loop.graph.value(loop.gradients[g]).name);
      const auto& wanted = b.at(rows.graph.value(rows.gradients[g]).name);
      double size = 1;
      for (double value : wanted.values) size = std::max(size, std::abs(value));
      // Both are in doubles: a few thousand roundings of 2^-53.
      EXPECT_LE(largest_change(got, wanted), size * 0x1p-40) << iterations << " " << g;
    }
  }
}

TEST(WhileGradient, RunsUnderDataAndTensorParallelPlansAndInMicroBatches) {
  const Graph graph = control_trained(false, 3).graph;
  const std::vector<Mark> rows{shard_tensor("x", "P(\"dp\")")},
      both{shard_tensor("x", "P(\"dp\")"), shard_tensor("up", "P(None, \"tp\")")};
  EXPECT_EQ(failure_of(on_mesh(graph, "dp=1")), "");
  EXPECT_EQ(failure_of(on_mesh(graph, "dp=3", rows)), "");
  EXPECT_EQ(failure_of(on_mesh(graph, "dp=2 tp=2", both)), "");
  EXPECT_EQ(failure_of(on_mesh(graph, "dp=2", rows, 4)), "");
  EXPECT_EQ(failure_of(on_mesh(graph, "dp=2 tp=2", both, 2)), "");
}

/// Data parallelism adds the gradients of captured values once, after the loop: no iteration
/// exchanges anything.
TEST(WhileGradient, AddsUpTheAddendsOfAllIterationsOnceAfterTheLoop) {
  const Compiled compiled =
      compile(control_trained(false, 3).graph,
              Plan{.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("dp=2"))),
                   .micro_batches = 2,
                   .marks = {shard_tensor("x", "P(\"dp\")")}});
  int loops = 0;
  for (const Task& task : compiled.tasks.tasks)
    for (const KernelStep& step : task.steps) {
      if (!step.control) continue;
      ++loops;
      for (const TaskGraph& region : step.control->regions)
        for (const Task& inner : region.tasks)
          EXPECT_NE(inner.kind, Task::Kind::kExchange) << inner.name;
    }
  EXPECT_EQ(loops, 6);  // forward, forward again and backward, in two micro-batches
}

TEST(WhileGradient, WithoutABoundOfTheIterationsIsRefused) {
  Graph graph = until_small();
  Builder builder(graph);
  const ValueId loss = builder.reduce_sum(graph.output("small"), {0}, "loss");
  try {
    differentiate(builder, loss, {*graph.find_value("x")});
    FAIL() << "it was differentiated";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "no gradient passes through while 'while', which has no max_iterations\n"
        "  why: what each iteration begins with is kept for the backward, which needs a bound of "
        "the number of iterations\n"
        "  fix: set max_iterations to a bound of its iterations, or put a stop_gradient after it");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
  }
}

TEST(IfGradient, IsThatOfTheRegionThatWasRun) {
  Graph graph = by_sign();
  Builder builder(graph);
  const ValueId loss = builder.reduce_sum(graph.output("y"), {0, 1}, "loss");
  graph.add_output("loss", loss);
  const Graph forward = graph;
  for (double sign : {-1, 1}) {
    ReferenceValues state = initial_variables(forward, 3);
    ReferenceTensor x{{DType::kF32, {4, 6}}, {}};
    for (int i = 0; i < 24; ++i) x.values.push_back(sign + 0.5 * std::sin(i));
    state["x"] = x;
    for (const GradientSample& sample : sample_gradients(forward, state, {"x", "w"}))
      EXPECT_NEAR(sample.analytic, sample.numeric, sample.tolerance) << sample.where << " " << sign;
  }
  const std::vector<ValueId> gradients =
      differentiate(builder, loss, {*graph.find_value("x"), *graph.find_value("w")});
  for (size_t i = 0; i < 2; ++i) graph.add_output("gradient" + std::to_string(i), gradients[i]);
  for (double size : {-1, 1}) {
    FuzzCase given = on_mesh(graph, "dp=2 tp=3", {shard_tensor("x", "P(\"dp\", \"tp\")")});
    given.fills["x"] = {false, size - 0.5, size + 0.5};
    EXPECT_EQ(failure_of(given), "") << size;
  }
}

/// The gradient of a parameter that the other branch does not read is zeros there, and in each
/// micro-batch a part of the sum over all.
TEST(IfGradient, OfAParameterThatOneBranchReadsIsSummedOverMicroBatches) {
  Graph graph;
  Builder builder(graph);
  const ValueId x = builder.input("x", {DType::kF32, {8, 6}});
  const ValueId turn = builder.input("turn", kScalar);
  const ValueId w = builder.variable("w", {DType::kF32, {6, 4}}, Initializer::normal(0, 0.4));
  const ValueId v = builder.variable("v", {DType::kF32, {6, 4}}, Initializer::normal(0, 0.4));
  const auto product = [](int weight) {
    return [weight](Builder& region, const RegionValues& values) {
      return std::vector{region.dot(values.captured[0], values.captured[weight], "bi,ij->bj")};
    };
  };
  const ValueId y = build_if(
      builder,
      {.predicate = builder.compare("ge", turn, builder.constant(kScalar, 0, "zero"), "positive"),
       .captured = {x, w, v},
       .then_region = product(1),
       .else_region = product(2),
       .name = "choice"})[0];
  const ValueId loss = builder.reduce_sum(builder.unary("square", y), {0, 1}, "loss");
  const std::vector<ValueId> gradients = differentiate(builder, loss, {w, v});
  graph.add_output("of_w", gradients[0]);
  graph.add_output("of_v", gradients[1]);
  for (double sign : {-1, 1})
    for (int64_t micro_batches : {1, 2, 4}) {
      FuzzCase given = on_mesh(graph, "dp=2", {shard_tensor("x", "P(\"dp\")")}, micro_batches);
      given.fills["turn"] = {false, sign, sign};
      EXPECT_EQ(failure_of(given), "") << sign << " " << micro_batches;
    }
}

TEST(WhileGradient, IsThatOfFiniteDifferences) {
  Graph forward;
  Builder builder(forward);
  const ValueId x = builder.input("x", {DType::kF32, {2, 3}});
  const ValueId w = builder.variable("w", {DType::kF32, {3, 3}}, Initializer::normal(0, 0.5));
  const auto body = [](Builder& region, const RegionValues& values) {
    const ValueId mixed = region.dot(values.carried[0], values.captured[0], "bi,ij->bj");
    const ValueId turned = region.unary("sin", mixed);
    return std::vector{turned, region.mul(values.carried[1], turned)};
  };
  const Loop loop =
      build_while(builder, {.carried = {x, x}, .captured = {w}, .body = body, .max_iterations = 3});
  const ValueId loss = builder.reduce_sum(loop.results[1], {0, 1}, "loss");
  forward.add_output("loss", loss);
  ReferenceValues state = initial_variables(forward, 3);
  state["x"] = {{DType::kF32, {2, 3}}, {0.3, -0.8, 1.1, 0.9, -0.4, 0.7}};
  for (const GradientSample& sample : sample_gradients(forward, state, {"x", "w"}))
    EXPECT_NEAR(sample.analytic, sample.numeric, sample.tolerance) << sample.where;
}

/// Drops the reductions in regions, so that partial values stay unreduced.
void drop_reductions(TaskGraph& graph) {
  const auto drop = [](std::shared_ptr<const Control>& control) {
    Control changed = *control;
    for (TaskGraph& region : changed.regions)
      for (TaskForm& inner : region.tasks.forms())
        if (inner.kind == Task::Kind::kExchange && inner.parts[0].exchange.to.partial.empty())
          inner.parts[0].exchange.from.partial.clear();
    control = std::make_shared<const Control>(std::move(changed));
  };
  for (TaskForm& task : graph.tasks.forms())
    for (KernelForm& step : task.steps) {
      if (!step.control) continue;
      drop(step.control);
      if (!step.variation) continue;
      KernelVariation variation = *step.variation;
      for (std::shared_ptr<const Control>& control : variation.controls) drop(control);
      step.variation = std::make_shared<const KernelVariation>(std::move(variation));
    }
}

TEST(Regions, ThatLackAReductionAreFoundByFuzzingAndShrinkToTheirOp) {
  FuzzOptions options;
  options.max_failures = 1;
  options.faults.check_placements = false;
  options.faults.tamper = drop_reductions;
  std::optional<FuzzFinding> found;
  options.on_failure = [&](const FuzzFinding& finding) { found = finding; };
  run_cases(options);
  ASSERT_TRUE(found);
  const std::vector<Op>& ops = found->smallest.graph.ops();
  EXPECT_LE(ops.size(), 6u) << to_text(found->smallest);
  EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [](const Op& op) { return !op.regions.empty(); }))
      << to_text(found->smallest);
  EXPECT_EQ(to_text(parse_case(to_text(found->smallest))), to_text(found->smallest));
}

TEST(Regions, AreReadBackFromTheTextOfAGraph) {
  for (const Graph& graph : {recurrent(3), until_small(), by_sign(), collatz()}) {
    const std::string text = tessera::to_text(graph);
    EXPECT_EQ(tessera::to_text(parse_graph(text)), text);
    EXPECT_NO_THROW(verify(parse_graph(text)));
  }
}

}  // namespace
}  // namespace tessera::fuzz
