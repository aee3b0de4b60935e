// Decomposed collective matmuls: the program that results, when it pays, and faults that the check
// of placements finds in it. src/tools/fuzz/collective_matmul_test.cpp compares the numbers with
// those of the serial run.
#include "compiler/lower/passes/collective_matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/testing/tensor_types.h"
#include "base/text/text.h"
#include "compiler/lower/lower.h"
#include "compiler/lower/partition.h"
#include "compiler/lower/passes/matmul_cost.h"
#include "compiler/placement_check/placement_check.h"
#include "ir/autodiff/gradient.h"
#include "ir/ops/builder.h"
#include "sharding/layout/testing/mesh_of.h"

namespace tessera {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// The instructions, without reasons.
std::vector<std::string> lines_of(const Program& program) {
  std::vector<std::string> lines;
  std::istringstream text(to_text(program));
  for (std::string line; std::getline(text, line);)
    if (line.find(" = ") != std::string::npos && !line.starts_with("output "))
      lines.push_back(line.substr(0, line.find(" <- ")));
  return lines;
}

struct Split {
  std::vector<std::string> lines;
  std::string report;
};

Split split(const Graph& graph, std::string_view mesh, const std::vector<Mark>& marks,
            int64_t chunks, const CostModel& cost = {}) {
  Program program = partition(graph, propagate(graph, mesh_of(mesh), marks));
  const std::string report = decompose_collective_matmuls(program, chunks, cost);
  return {lines_of(program), report};
}

/// Rows divided, then a product divided by columns: h is gathered before it.
Graph gather_then_product(Shape shape = {8, 6}) {
  Graph graph;
  Builder b(graph);
  const int64_t inner = shape[1];
  const ValueId h = b.unary("tanh", b.input("x", f32(shape)), "h");
  graph.add_output(
      "y", b.dot(h, b.variable("w", f32({inner, 4}), Initializer::normal(0, 1)), "mk,kn->mn", "y"));
  return graph;
}
const std::vector<Mark> kByRowsThenColumns = {shard_tensor("x", "P(\"tp\")"),
                                              shard_tensor("w", "P(None, \"tp\")"),
                                              shard_op("y", "[P(), P(None,\"tp\")]")};

TEST(CollectiveMatmul, AnAllGatherBeforeAMatmulIsDoneInChunksOfItsRows) {
  const Split made = split(gather_then_product(), "tp=2", kByRowsThenColumns, 2);
  EXPECT_THAT(
      made.lines,
      ElementsAre("h = unary.tanh(x): f32[8@tp, 6]",                                       //
                  "h chunk 0 of 2 = take_chunk(h): f32[4@tp, 6]",                          //
                  "h chunk 1 of 2 = take_chunk(h): f32[4@tp, 6]",                          //
                  "h [*, *] chunk 0 of 2 = all-gather(h chunk 0 of 2): f32[4, 6]",         //
                  "y chunk 0 of 2 = dot_general(h [*, *] chunk 0 of 2, w): f32[4, 4@tp]",  //
                  "h [*, *] chunk 1 of 2 = all-gather(h chunk 1 of 2): f32[4, 6]",         //
                  "y chunk 1 of 2 = dot_general(h [*, *] chunk 1 of 2, w): f32[4, 4@tp]",  //
                  "y = join_chunks(y chunk 0 of 2, y chunk 1 of 2): f32[8, 4@tp]"));
}

/// The contracted dim divided, the result by rows: its partial values are reduce-scattered.
Graph product_then_scatter(Shape shape = {8, 6}) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32(shape));
  const ValueId y =
      b.dot(x, b.variable("w", f32({shape[1], 16}), Initializer::normal(0, 1)), "mk,kn->mn", "y");
  graph.add_output("z", b.unary("tanh", y, "z"));
  return graph;
}
const std::vector<Mark> kContracted = {shard_tensor("x", "P(None, \"tp\")"),
                                       shard_tensor("w", "P(\"tp\")"),
                                       shard_tensor("z", "P(\"tp\")")};

TEST(CollectiveMatmul, PartialValuesAreReduceScatteredInChunksAfterAllTheirMatmuls) {
  const Split made = split(product_then_scatter(), "tp=2", kContracted, 2);
  EXPECT_THAT(
      made.lines,
      ElementsAre(
          "x chunk 0 of 2 = take_chunk(x): f32[4, 6@tp]",                                   //
          "y chunk 0 of 2 = dot_general(x chunk 0 of 2, w): f32[4, 16] {partial sum: tp}",  //
          "x chunk 1 of 2 = take_chunk(x): f32[4, 6@tp]",                                   //
          "y chunk 1 of 2 = dot_general(x chunk 1 of 2, w): f32[4, 16] {partial sum: tp}",  //
          "y [@tp, *] chunk 0 of 2 = reduce-scatter(y chunk 0 of 2): f32[4@tp, 16]",        //
          "y [@tp, *] chunk 1 of 2 = reduce-scatter(y chunk 1 of 2): f32[4@tp, 16]",        //
          "y [@tp, *] = join_chunks(y [@tp, *] chunk 0 of 2, y [@tp, *] chunk 1 of 2): "
          "f32[8@tp, 16]",  //
          StartsWith("z = unary.tanh(y [@tp, *])")));
}

/// The numbers that calls of `kernel` have.
std::vector<std::vector<int64_t>> numbers_of(const TaskGraph& tasks, std::string_view kernel) {
  std::vector<std::vector<int64_t>> numbers;
  for (const Task& task : tasks.tasks)
    for (const KernelStep& step : task.steps)
      if (step.call->kernel == kernel) {
        numbers.emplace_back();
        for (const LocalInt& value : step.call->ints) numbers.back().push_back(value.constant);
      }
  return numbers;
}

/// In two chunks.
Plan plan_of(std::string_view mesh, const std::vector<Mark>& marks, int64_t micro_batches = 1) {
  return {.meshes = one_mesh(mesh_of(mesh)),
          .micro_batches = micro_batches,
          .collective_matmul = 2,
          .marks = marks};
}

// Of h each rank has one of two blocks, of the gathered tensor and of y both: dim, blocks (,
// index).
TEST(CollectiveMatmul, AChunkIsThePartOfEveryBlockThatARankHas) {
  const TaskGraph tasks = compile(gather_then_product(), plan_of("tp=2", kByRowsThenColumns)).tasks;
  EXPECT_THAT(numbers_of(tasks, "take_chunk"),
              ElementsAre(ElementsAre(0, 1, 0), ElementsAre(0, 1, 1)));
  EXPECT_THAT(numbers_of(tasks, "join_chunks"), ElementsAre(ElementsAre(0, 2)));
  const TaskGraph scattered = compile(product_then_scatter(), plan_of("tp=2", kContracted)).tasks;
  EXPECT_THAT(numbers_of(scattered, "take_chunk"),
              ElementsAre(ElementsAre(0, 2, 0), ElementsAre(0, 2, 1)));
  EXPECT_THAT(numbers_of(scattered, "join_chunks"), ElementsAre(ElementsAre(0, 1)));
}

TEST(CollectiveMatmul, TheResultOfOneMatmulIsSentWhileTheNextOneRuns) {
  const TaskGraph tasks = compile(product_then_scatter(), plan_of("tp=2", kContracted)).tasks;
  std::vector<std::string> products;
  for (const Task& task : tasks.tasks) {
    int in_task = 0;
    for (const KernelStep& step : task.steps) in_task += step.call->kernel == "dot_general" ? 1 : 0;
    if (in_task > 0) products.push_back(task.name + " " + std::to_string(in_task));
  }
  EXPECT_THAT(products, ElementsAre("take x 1", "take x 1"));
}

/// q, k and v of one h; and the sum of h.
Graph three_readers() {
  Graph graph;
  Builder b(graph);
  const ValueId h = b.unary("tanh", b.input("x", f32({8, 6})), "h");
  for (const char* name : {"q", "k", "v"}) {
    const ValueId w = b.variable(std::string("w") + name, f32({6, 4}), Initializer::normal(0, 1));
    b.unary("tanh", b.dot(h, w, "mk,kn->mn", name), std::string(name) + ".tanh");
  }
  graph.add_output("all", b.reduce(ReduceOp::kMax, b.unary("square", h, "squares"), {0, 1}, "all"));
  return graph;
}

TEST(CollectiveMatmul, AllMatmulsOfAGatheredTensorAreDecomposedTogetherAndOtherReadersGetItWhole) {
  std::vector<Mark> marks = {shard_tensor("x", "P(\"tp\")"), shard_op("squares", "[P()]")};
  for (const char* name : {"q", "k", "v"}) {
    marks.push_back(shard_tensor(std::string("w") + name, "P(None, \"tp\")"));
    marks.push_back(shard_op(name, "[P(), P(None,\"tp\")]"));
  }
  const Split made = split(three_readers(), "tp=2", marks, 2);
  std::vector<std::string> kernels;
  for (const std::string& line : made.lines) kernels.push_back(line.substr(0, line.find('(')));
  EXPECT_THAT(kernels,
              ElementsAre("h = unary.tanh", "h chunk 0 of 2 = take_chunk",
                          "h chunk 1 of 2 = take_chunk",                                         //
                          "h [*, *] chunk 0 of 2 = all-gather", "q chunk 0 of 2 = dot_general",  //
                          "k chunk 0 of 2 = dot_general", "v chunk 0 of 2 = dot_general",        //
                          "h [*, *] chunk 1 of 2 = all-gather", "q chunk 1 of 2 = dot_general",  //
                          "k chunk 1 of 2 = dot_general", "v chunk 1 of 2 = dot_general",        //
                          "q = join_chunks", "k = join_chunks", "v = join_chunks",
                          "h [*, *] = join_chunks",  //
                          "q.tanh = unary.tanh", "k.tanh = unary.tanh", "v.tanh = unary.tanh",
                          "squares = unary.square", "all = reduce.max"));
  EXPECT_THAT(made.report, StartsWith("q, k, v with all-gather h [*, *]: 2 chunks of dim 0, "));
}

TEST(CollectiveMatmul, AnAllReduceInTwoStepsIsDecomposedToItsEnd) {
  Graph graph;
  Builder b(graph);
  const ValueId x = b.input("x", f32({8, 6}));
  const ValueId y =
      b.dot(x, b.variable("w", f32({6, 16}), Initializer::normal(0, 1)), "mk,kn->mn", "y");
  graph.add_output("z", b.unary("tanh", y, "z"));
  Program program =
      partition(graph,
                propagate(graph, mesh_of("tp=2"),
                          {shard_tensor("x", "P(None, \"tp\")"), shard_tensor("w", "P(\"tp\")"),
                           shard_tensor("z", "P()")}),
                one_mesh(mesh_of("tp=2")),
                {.reshard = {.all_reduce = AllReduceAlgorithm::kReduceScatterAllGather}});
  decompose_collective_matmuls(program, 2, {});
  std::vector<std::string> kernels;
  for (const std::string& line : lines_of(program))
    kernels.push_back(line.substr(0, line.find('(')));
  EXPECT_THAT(
      kernels,
      ElementsAre("x chunk 0 of 2 = take_chunk", "y chunk 0 of 2 = dot_general",
                  "x chunk 1 of 2 = take_chunk", "y chunk 1 of 2 = dot_general",
                  "y [@tp, *] chunk 0 of 2 = reduce-scatter", "y [*, *] chunk 0 of 2 = all-gather",
                  "y [@tp, *] chunk 1 of 2 = reduce-scatter", "y [*, *] chunk 1 of 2 = all-gather",
                  "y [*, *] = join_chunks", "z = unary.tanh"));
}

TEST(CollectiveMatmul, MatmulsWhoseResultsAreAddedAreDecomposedTogether) {
  Graph graph;
  Builder b(graph);
  std::vector<ValueId> products;
  for (const std::string name : {"p", "q", "r"}) {
    const ValueId x = b.input("x" + name, f32({8, 6}));
    products.push_back(b.dot(x, b.variable("w" + name, f32({6, 16}), Initializer::normal(0, 1)),
                             "mk,kn->mn", name));
  }
  const ValueId two = b.add(products[0], products[1], "two");
  graph.add_output("z", b.unary("tanh", b.add(two, products[2], "three"), "z"));
  const Split made = split(graph, "tp=2",
                           {shard_tensor("x*", "P(None, \"tp\")"), shard_tensor("w*", "P(\"tp\")"),
                            shard_tensor("z", "P()")},
                           2);
  std::vector<std::string> kernels;
  for (const std::string& line : made.lines)
    if (line.find("take_chunk") == std::string::npos)
      kernels.push_back(line.substr(0, line.find('(')));
  EXPECT_THAT(kernels,
              ElementsAre("p chunk 0 of 2 = dot_general", "q chunk 0 of 2 = dot_general",
                          "r chunk 0 of 2 = dot_general",                                      //
                          "two chunk 0 of 2 = binary.add", "three chunk 0 of 2 = binary.add",  //
                          "p chunk 1 of 2 = dot_general", "q chunk 1 of 2 = dot_general",
                          "r chunk 1 of 2 = dot_general",                                      //
                          "two chunk 1 of 2 = binary.add", "three chunk 1 of 2 = binary.add",  //
                          "three [*, *] chunk 0 of 2 = all-reduce",
                          "three [*, *] chunk 1 of 2 = all-reduce", "three [*, *] = join_chunks",
                          "z = unary.tanh"));
  EXPECT_THAT(made.report, StartsWith("p, q, r with all-reduce three [*, *]: 2 chunks of dim 0, "));
}

// Kernels of 16 bits add in f32, in a workspace: each chunk has one of its own.
TEST(CollectiveMatmul, AdditionsOfChunksHaveWorkspaces) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Graph graph;
    Builder b(graph);
    std::vector<ValueId> products;
    for (const std::string name : {"p", "q"}) {
      const ValueId x = b.input("x" + name, {dtype, {8, 6}});
      const ValueId w = b.input("w" + name, {dtype, {6, 16}});
      products.push_back(b.dot(x, w, "mk,kn->mn", name));
    }
    graph.add_output("z", b.unary("tanh", b.add(products[0], products[1], "sum"), "z"));
    const Plan plan{.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh("tp=2"))),
                    .collective_matmul = 2,
                    .marks = {shard_tensor("x*", "P(None, \"tp\")"),
                              shard_tensor("w*", "P(\"tp\")"), shard_tensor("z", "P()")}};
    EXPECT_NO_THROW(compile(graph, plan, {.dump = {}, .verify_passes = true}));
  }
}

TEST(CollectiveMatmul, UnevenPartsStayWhole) {
  // 10 rows over two ranks are 5 and 5, which no 2 divides; 7 are 4 and 3. The other dim of h
  // is added up.
  for (int64_t rows : {10, 7}) {
    const Split made = split(gather_then_product({rows, 6}), "tp=2", kByRowsThenColumns, 2);
    EXPECT_EQ(made.report,
              "y with all-gather h [*, *]: whole, no dim that could be cut is divided evenly\n")
        << rows << " rows";
    EXPECT_THAT(made.lines, Not(testing::Contains(HasSubstr("chunk")))) << rows << " rows";
  }
}

TEST(CollectiveMatmul, UsesTheLargestNumberOfChunksThatFits) {
  // 12 rows over two ranks: 6 each, in 4 chunks no, in 3 yes.
  const Split made = split(gather_then_product({12, 6}), "tp=2", kByRowsThenColumns, 4);
  EXPECT_THAT(made.report, StartsWith("y with all-gather h [*, *]: 3 chunks of dim 0, "));
}

// ---- when it pays ----

TEST(DecomposedTime, HidesAllButOneTransferBehindKernels) {
  const ChunkTimes of_chunk{Seconds(2), Seconds(3), Seconds(0.5)};
  EXPECT_EQ(decomposed_time(1, of_chunk), Seconds(0.5 + 2 + 3));
  EXPECT_EQ(decomposed_time(4, of_chunk), Seconds(0.5 + 2 + 3 * 3 + 3));  // the kernels are slower
  EXPECT_EQ(decomposed_time(4, {Seconds(3), Seconds(2), Seconds(0)}),
            Seconds(3 + 3 * 3 + 2));  // the transfers are
}

/// Nothing but the bytes of links and the flops of products counts.
CostModel without_losses(double latency) {
  return {.device = {.flops_per_second = 1,
                     .bytes_per_second = 1e30,
                     .copied_bytes_per_second = 1e30,
                     .launch = Seconds(0)},
          .links = {.any = {Seconds(latency), 0.5}}};
}

TEST(CollectiveMatmul, UsesAsManyChunksAsPay) {
  // The gather: 4 rows of 6 elements from the other rank, 96 bytes; the product: 2 x 8 x 6 x 2 =
  // 192 operations. At one operation a second and one byte in 2 s both take 192 s; in 4 chunks of
  // 48 s each 48 + 3 x 48 + 48 = 240 s, for 384 s.
  EXPECT_EQ(split(gather_then_product(), "tp=2", kByRowsThenColumns, kAutoChunks, without_losses(0))
                .report,
            "y with all-gather h [*, *]: 4 chunks of dim 0, 4m00s; whole 6m24s\n");
  // A latency of 60 s makes of it 252 + 192 = 444 s; in 2 chunks 156 + 156 + 96 = 408 s, in 4 of
  // 108 and 48 s 4 x 108 + 48 = 480 s.
  EXPECT_EQ(
      split(gather_then_product(), "tp=2", kByRowsThenColumns, kAutoChunks, without_losses(60))
          .report,
      "y with all-gather h [*, *]: 2 chunks of dim 0, 6m48s; whole 7m24s\n");
  // One of 100 s: 292 + 192 = 484 s whole, 196 + 196 + 96 = 488 s in two.
  EXPECT_EQ(
      split(gather_then_product(), "tp=2", kByRowsThenColumns, kAutoChunks, without_losses(100))
          .report,
      "y with all-gather h [*, *]: whole, 8m04s; 2 chunks of dim 0 8m08s\n");
}

TEST(CollectiveMatmul, DoesNothingUnlessThePlanAsksForIt) {
  const Split made = split(gather_then_product(), "tp=2", kByRowsThenColumns, 1);
  EXPECT_EQ(made.report, "");
  EXPECT_THAT(made.lines, Not(testing::Contains(HasSubstr("chunk"))));
}

// ---- faults ----

/// A layer forward and backward on dp=2 tp=2, rows of sequences over tp, in `micro_batches`:
/// gathers, scatters and all-reduces.
Graph trained_layer() {
  Graph graph;
  Builder b(graph);
  const ValueId first = b.variable("first", f32({4, 4}), Initializer::normal(0, 1));
  const ValueId h =
      b.unary("tanh", b.dot(b.input("x", f32({8, 8, 4})), first, "bsk,kn->bsn", "f"), "h");
  const ValueId up = b.variable("up", f32({4, 8}), Initializer::normal(0, 1)),
                down = b.variable("down", f32({8, 4}), Initializer::normal(0, 1));
  const ValueId u = b.unary("tanh", b.dot(h, up, "bsk,kn->bsn", "u"), "u.tanh");
  const ValueId y = b.add(h, b.dot(u, down, "bsk,kn->bsn", "d"), "y");
  const ValueId loss = b.reduce_sum(b.unary("square", y, "squares"), {0, 1, 2}, "loss");
  graph.add_output("loss", loss);
  const auto gradients = differentiate(b, loss, {up, down, first});
  graph.set_next(up, b.sub(up, gradients[0], "up.next"));
  graph.set_next(down, b.sub(down, gradients[1], "down.next"));
  graph.set_next(first, b.sub(first, gradients[2], "first.next"));
  return graph;
}
const std::vector<Mark> kSequence = {
    shard_tensor("x", "P(\"dp\", \"tp\")"), shard_tensor("up", "P(None, \"tp\")"),
    shard_tensor("down", "P(\"tp\")"), shard_tensor("y", "P(\"dp\", \"tp\")")};

TEST(CollectiveMatmul, DecomposesEveryMicroBatchAndTheBackward) {
  for (int64_t micro_batches : {1, 2}) {
    std::string report;
    CompileOptions options;
    options.dump = [&](std::string_view pass, const std::string& text) {
      if (pass == "collective-matmul") report = text;
    };
    const TaskGraph tasks =
        compile(trained_layer(), plan_of("dp=2 tp=2", kSequence, micro_batches), options).tasks;
    std::vector<std::string> heads;
    for (const std::string& line : split_text(report, '\n'))
      heads.push_back(line.substr(0, line.find(':')));
    const std::string of_first = micro_batches == 1 ? "" : " #0";
    EXPECT_THAT(heads, testing::Contains("u with all-gather h [@dp, *, *]" + of_first));
    EXPECT_THAT(heads, testing::Contains("d with reduce-scatter d [@dp, @tp, *]" + of_first));
    EXPECT_THAT(heads, testing::Contains(AllOf(HasSubstr("grad"), HasSubstr("all-gather"))));
    EXPECT_THAT(heads, testing::Contains(AllOf(HasSubstr("grad"), HasSubstr("reduce-scatter"))));
    std::vector<int64_t> by_micro_batch(static_cast<size_t>(micro_batches), 0);
    for (const Task& task : tasks.tasks)
      for (const KernelStep& step : task.steps)
        if (step.call->kernel == "join_chunks") ++by_micro_batch[std::max(task.micro_batch, 0)];
    EXPECT_THAT(by_micro_batch, testing::Each(by_micro_batch.front())) << report;
    EXPECT_EQ(by_micro_batch.front(), 6);  // u, d.grad.a and what they read whole, d, u.grad.a
  }
}

/// What the check of placements says of a compiled layer in which `plant` changed a thing.
std::string finding(const std::function<bool(TaskGraph&)>& plant) {
  const Graph graph = trained_layer();
  Compiled made = compile(graph, plan_of("dp=2 tp=2", kSequence));
  TaskGraph& tasks = made.tasks;
  if (!plant(tasks)) return "nowhere to plant it";
  try {
    check_placements(made.graph, tasks, 1);
    return "";
  } catch (const InternalError& error) {
    return error.what();
  }
}

/// Changes the first step that calls `kernel`.
std::function<bool(TaskGraph&)> in_first(
    const std::string& kernel, const std::function<void(TaskGraph&, KernelForm&)>& change) {
  return [=](TaskGraph& tasks) {
    for (TaskForm& task : tasks.tasks.forms())
      for (KernelForm& step : task.steps)
        if (step.call->kernel == kernel) {
          change(tasks, step);
          return true;
        }
    return false;
  };
}

TEST(ChunksCheck, AcceptsADecomposedProgram) {
  EXPECT_EQ(finding([](TaskGraph&) { return true; }), "");
}

TEST(ChunksCheck, FindsChunksJoinedInAnotherOrder) {
  EXPECT_THAT(finding(in_first(
                  "join_chunks",
                  [](TaskGraph&, KernelForm& step) { std::swap(step.inputs[0], step.inputs[1]); })),
              HasSubstr("as chunk 0 of"));
}

TEST(ChunksCheck, FindsAMissingChunk) {
  EXPECT_THAT(finding(in_first("join_chunks",
                               [](TaskGraph&, KernelForm& step) { step.inputs.pop_back(); })),
              HasSubstr("joins 1 of 2 chunks"));
}

TEST(ChunksCheck, FindsAnotherChunkThanIsDeclared) {
  EXPECT_THAT(finding(in_first("take_chunk",
                               [](TaskGraph&, KernelForm& step) {
                                 step.call.change([](KernelCall& call) { call.ints.back() = 1; });
                               })),
              HasSubstr("for other chunks"));
  EXPECT_THAT(finding(in_first("take_chunk",
                               [](TaskGraph&, KernelForm& step) {
                                 step.call.change([](KernelCall& call) { call.ints[1] = 2; });
                               })),
              HasSubstr("for other chunks"));
}

TEST(ChunksCheck, FindsBlocksThatAreNotThePartsOfRanks) {
  // As if the gathered tensor were one block: its first chunk would be the rows of the first
  // ranks.
  const auto plant = [](TaskGraph& tasks) {
    for (RegisterForm& reg : tasks.registers.forms())
      if (reg.chunk.dim >= 0) reg.chunk.blocks = 1;
    return true;
  };
  EXPECT_THAT(finding(plant), AllOf(HasSubstr("placements"), HasSubstr("chunk")));
}

TEST(ChunksCheck, FindsAMatmulOfTwoDifferentChunks) {
  const auto other_result = [](TaskGraph& tasks) {
    for (const TaskForm& task : tasks.tasks.forms())
      for (const KernelForm& step : task.steps)
        if (RegisterForm& result = tasks.registers.forms()[step.outputs.front()];
            step.call->kernel == "dot_general" && result.chunk.dim >= 0) {
          result.chunk.index = 1 - result.chunk.index;
          return true;
        }
    return false;
  };
  EXPECT_THAT(finding(other_result), HasSubstr("works on a chunk, and"));
}

}  // namespace
}  // namespace tessera
