// Decomposed matmuls: every register is compared with the reference interpreter, and the results
// with those of the plan without decomposition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/text.h"
#include "ir/autodiff/optimizer.h"
#include "ir/ops/builder.h"
#include "kernels/bind.h"
#include "runtime/runtime/runtime.h"
#include "tools/fuzz/fuzz.h"

namespace tessera::fuzz {
namespace {

/// The sizes of two layers of a residual network, divided as in Megatron: by sequences between the
/// products, by columns and rows inside.
struct Sizes {
  int64_t batch = 4, sequence = 8, width = 4, inner = 8;
};

Graph layers(const Sizes& sizes) {
  Graph graph;
  Builder b(graph);
  ValueId x = b.input("x", {DType::kF32, {sizes.batch, sizes.sequence, sizes.width}});
  for (int layer = 0; layer < 2; ++layer) {
    const auto scope = b.scope("layer" + std::to_string(layer));
    const auto weight = [&](const char* name, int64_t rows, int64_t columns) {
      return b.variable(name, {DType::kF32, {rows, columns}}, Initializer::normal(0, 0.5));
    };
    const ValueId h = b.unary("tanh", x, "h");
    const ValueId gate = b.dot(h, weight("gate", sizes.width, sizes.inner), "bsk,kn->bsn", "g");
    const ValueId up = b.dot(h, weight("up", sizes.width, sizes.inner), "bsk,kn->bsn", "u");
    const ValueId opened = b.unary("logistic", gate, "opened");
    const ValueId mixed = b.mul(opened, up, "mixed");
    x = b.add(x, b.dot(mixed, weight("down", sizes.inner, sizes.width), "bsk,kn->bsn", "d"), "x");
  }
  const ValueId loss = b.reduce_sum(b.unary("square", x, "squares"), {0, 1, 2}, "loss");
  graph.add_output("loss", loss);
  add_training(b, loss, {.kind = OptimizerKind::kMomentum});
  return graph;
}

std::vector<Mark> by_sequence_and_columns(const std::string& rows) {
  std::vector<Mark> marks;
  for (const char* name : {"x", "layer*.{h,x}"}) marks.push_back(shard_tensor(name, rows));
  for (const char* name : {"layer*.{gate,up}"})
    marks.push_back(shard_tensor(name, "P(None, \"tp\")"));
  marks.push_back(shard_tensor("layer*.down", "P(\"tp\")"));
  return marks;
}

struct Division {
  const char* mesh;
  const char* rows;  // of sequences
  Sizes sizes = {};
  int64_t micro_batches = 1;
};

FuzzCase collective_matmul_case_of(const Division& division, int64_t chunks) {
  FuzzCase given;
  given.seed = 5;
  given.graph = layers(division.sizes);
  given.meshes = one_mesh(std::make_shared<const Mesh>(parse_mesh(division.mesh)));
  given.marks = by_sequence_and_columns(division.rows);
  given.micro_batches = division.micro_batches;
  given.chunks = chunks;
  given.fills["learning_rate"] = {false, 0.0001, 0.001};
  return given;
}

const Division kDivisions[] = {
    {"tp=2", "P(None, \"tp\")"},
    {"tp=4", "P(None, \"tp\")", {.sequence = 32}},
    {"tp=3", "P(None, \"tp\")", {.sequence = 18, .width = 6, .inner = 9}},
    {"dp=2 tp=2", "P(\"dp\", \"tp\")"},
    {"dp=2 tp=2",
     "P(\"dp\", \"tp\")",
     {.batch = 5, .sequence = 8, .width = 3, .inner = 5}},  // uneven in all but the cut dim
    {"dp=2 tp=2",
     "P(None, (\"dp\", \"tp\"))",
     {.batch = 3, .sequence = 16}},  // two axes on the cut dim
    {"tp=2", "P(None, \"tp\")", {}, 2},
    {"dp=2 tp=2", "P(\"dp\", \"tp\")", {.batch = 12}, 3},
    {"tp=2", "P(\"tp\")", {.batch = 8}, 2},  // cut where micro-batches are
    {"tp=2:1", "P(None, \"tp\")", {.sequence = 18, .width = 6, .inner = 9}},
    {"dp=2 tp=1:3", "P(\"dp\", \"tp\")", {.sequence = 16, .width = 6, .inner = 9}},
    {"tp=2", "P()"},  // no sequence parallelism: sums in place of scatters
};

TEST(FuzzCollectiveMatmul, DecomposedMatmulsComputeWhatTheSerialProgramComputes) {
  for (const Division& division : kDivisions)
    for (int64_t chunks : {2, 3, 4}) {
      int in_chunks = 0;
      CaseFaults faults;
      faults.on_chunks = [&] { ++in_chunks; };
      const auto failure = run_case(collective_matmul_case_of(division, chunks), faults);
      EXPECT_FALSE(failure) << division.mesh << " " << division.rows << " in " << chunks
                            << " chunks: " << failure->text;
      EXPECT_EQ(in_chunks, chunks == 2 ? 1 : in_chunks) << division.mesh << " " << division.rows;
    }
}

/// The values of all variables after a few steps.
std::map<std::string, std::vector<double>> trained(const Division& division, int64_t chunks,
                                                   AllReduceAlgorithm sums) {
  const FuzzCase given = collective_matmul_case_of(division, chunks);
  const Plan plan{.meshes = given.meshes,
                  .micro_batches = given.micro_batches,
                  .all_reduce = sums,
                  .collective_matmul = chunks,
                  .marks = given.marks};
  const auto tasks = std::make_shared<const TaskGraph>(compile(given.graph, plan).tasks);
  Runtime runtime(ranks(*tasks), {});
  LoadedProgram& program = runtime.load(tasks);
  runtime.initialize(program, given.seed);
  TensorMap results;
  for (int64_t step = 0; step < 3; ++step) {
    std::map<std::string, Tensor> inputs;
    std::map<std::string, const Tensor*> pointers;
    for (ValueId input : given.graph.inputs()) {
      const std::string& name = given.graph.value(input).name;
      pointers[name] =
          &inputs.emplace(name, sampled(given, name, given.graph.type(input), step)).first->second;
    }
    runtime.run(program, pointers, results);
  }
  std::map<std::string, std::vector<double>> values;
  for (const Variable& variable : given.graph.variables()) {
    const std::string& name = given.graph.value(variable.value).name;
    values[name] = to_reference(runtime.variable(name)).values;
  }
  return values;
}

/// The first variable that differs, and the position; "" when none does.
std::string first_difference(const std::map<std::string, std::vector<double>>& a,
                             const std::map<std::string, std::vector<double>>& b) {
  for (const auto& [name, values] : a)
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i] != b.at(name)[i])
        return name + " element " + std::to_string(i) + ": " + double_text(values[i]) + " and " +
               double_text(b.at(name)[i]);
  return "";
}

/// Does the matrix library add 32 rows of a product in the same order as 64, for the operands of
/// these layers?
bool adds_up_alike_for_fewer_rows(const Sizes& sizes) {
  const auto product = [](int64_t rows, int64_t inner, int64_t columns, const std::string& spec) {
    const TensorType a{DType::kF32, {rows, inner}}, out{DType::kF32, {rows, columns}};
    const TensorType b{DType::kF32,
                       spec == "mk,kn->mn" ? Shape{inner, columns} : Shape{columns, inner}};
    const BoundKernel kernel = bind_kernel({"dot_general", {}, {}, spec, {a, b}, {out}});
    Tensor left(a), right(b), result(out);
    for (size_t i = 0; i < left.values<float>().size(); ++i)
      left.values<float>()[i] = 1.0f / static_cast<float>(i % 97 + 3);
    for (size_t i = 0; i < right.values<float>().size(); ++i)
      right.values<float>()[i] = 1.0f / static_cast<float>(i % 89 + 7);
    AlignedBuffer workspace(kernel.workspace);
    const std::byte* inputs[] = {left.data(), right.data()};
    std::byte* outputs[] = {result.data()};
    kernel.run({inputs, outputs, workspace.data()});
    const auto values = result.values<float>().first(32 * columns);
    return std::vector<float>(values.begin(), values.end());
  };
  for (const char* spec : {"mk,kn->mn", "mk,nk->mn"})
    for (const auto& [inner, columns] :
         {std::pair{sizes.width, sizes.inner / 2}, std::pair{sizes.inner / 2, sizes.width}})
      if (product(32, inner, columns, spec) != product(64, inner, columns, spec)) return false;
  return true;
}

// The chunks divide a dim that is not reduced, so every element is the same sum of the same
// products. Here rows are divided, since the weights are larger.
TEST(FuzzCollectiveMatmul,
     DecomposedAndWholeMatmulsHaveTheSameBitsWhereTheLibrarySumsFewerRowsInTheSameOrder) {
  const Sizes sizes{.batch = 2, .sequence = 32, .width = 72, .inner = 16};
  if (!adds_up_alike_for_fewer_rows(sizes)) GTEST_SKIP() << "it does not on this processor";
  Sizes larger = sizes;
  larger.batch = 4;
  for (const Division& division :
       {Division{"tp=2", "P(None, \"tp\")", sizes},
        Division{"dp=2 tp=2", "P(\"dp\", \"tp\")", larger},
        Division{"tp=2", "P(None, \"tp\")", larger, 2}, Division{"tp=2", "P()", sizes}})
    for (AllReduceAlgorithm sums :
         {AllReduceAlgorithm::kOneShot, AllReduceAlgorithm::kReduceScatterAllGather})
      EXPECT_EQ(first_difference(trained(division, 2, sums), trained(division, 1, sums)), "")
          << division.mesh << " " << division.rows;
}

}  // namespace
}  // namespace tessera::fuzz
