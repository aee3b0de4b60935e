#include "kernels/kernel.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "base/text/text.h"
#include "kernels/bind.h"
#include "kernels/cpu/catalogue.h"
#include "kernels/reference/reference.h"
#include "kernels/testing/kernel_check.h"

namespace tessera {
namespace {

using namespace kernel_testing;

TEST(Kernels, NamesAreSortedAndUnique) {
  const std::vector<std::string> names = kernel_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

// "unary.OP" for every unary.exp.
std::string family_of(const std::string& name) {
  const size_t dot = name.find('.');
  return dot == std::string::npos ? name : name.substr(0, dot) + ".OP";
}

TEST(Kernels, TheTableInTheReadmeNamesExactlyTheFamiliesOfTheCatalogue) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/src/kernels/README.md");
  std::set<std::string> documented, built;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> cells = split_text(line, '|');
    if (cells.size() > 2) documented.insert(std::string(trim(cells[1])));
  }
  documented.erase("kernel");
  documented.erase("---");
  for (const std::string& name : kernel_names()) built.insert(family_of(name));
  EXPECT_EQ(documented, built);
}

TEST(Kernels, AnUnknownNameIsRefusedWithTheNearest) {
  try {
    bind_kernel({"unary.tahn", {}, {}, "", {}, {}});
    FAIL() << "an unknown kernel was bound";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(),
                 "internal error: no kernel is called 'unary.tahn'; the nearest is 'unary.tanh'");
  }
  EXPECT_THROW(bind_reference_kernel({"unary_tanh", {}, {}, "", {}, {}}), InternalError);
}

TEST(Kernels, ARefusedCallIsShownWithItsTypesAndTheBrokenRule) {
  try {
    bind_kernel({"unary.exp", {}, {}, "", {{DType::kI32, {2}}}, {{DType::kI32, {2}}}});
    FAIL() << "a call that does not fit was bound";
  } catch (const InternalError& error) {
    EXPECT_STREQ(error.what(), "internal error: kernel unary.exp(i32[2]) -> i32[2]: takes f32");
  }
}

TEST(Kernels, OnlyKernelsWithoutReorderingRunInPlace) {
  for (const char* name :
       {"unary.exp", "binary.add", "scalar.mul", "not", "select", "cast", "copy"})
    EXPECT_TRUE(runs_in_place(name)) << name;
  for (const char* name :
       {"transpose", "reduce.sum", "dot_general", "compare.lt", "gather", "attention"})
    EXPECT_FALSE(runs_in_place(name)) << name;
  EXPECT_THROW(runs_in_place("nothing"), InternalError);
}

TEST(Kernels, AnUpdateIsWrittenOverItsFirstInputAlone) {
  const std::vector<int> inputs{4, 5, 6}, twice{4, 4, 6};
  EXPECT_TRUE(may_write_over("dynamic_update", inputs, 4));
  EXPECT_FALSE(may_write_over("dynamic_update", inputs, 5));
  EXPECT_FALSE(may_write_over("dynamic_update", twice,
                              4));  // the update would be read after x has been written over
  EXPECT_FALSE(may_write_over("dynamic_update", inputs, 7));
  EXPECT_TRUE(may_write_over("select", inputs, 6));
  EXPECT_FALSE(may_write_over("dynamic_slice", inputs, 4));
}

TEST(Kernels, RefuseElementTypesThatTheyDoNotCompute) {
  const TensorType type{DType::kI64, {2}};
  EXPECT_THAT(
      [&] { bind_kernel({"copy", {}, {}, "", {type}, {type}}); },
      testing::ThrowsMessage<UserError>(
          "kernel 'copy': an operand is i64[2]\n"
          "  why: built-in kernels compute with f32, f16, bf16, i32 and bool; tensors of other "
          "element types are stored and moved only\n"
          "  fix: use one of these types, or bring a kernel of your own"));
}

TEST(Kernels, LocalizePutsTheBeginOfASplitIntoTheParameters) {
  // 10 columns over 4 ranks are 3, 3, 2, 2; the third begins at 6.
  const Split split{10, 1, {{0, 4}}};
  const KernelCall call{"iota", {1, LocalInt::begin_of(split)}, {}, ""};
  const LocalCall local = localize(call, {2}, {}, {{DType::kI32, {2, 2}}});
  EXPECT_EQ(local.ints, (std::vector<int64_t>{1, 6}));
  EXPECT_EQ(local.kernel, "iota");
  const Tensors out = run_fast(local, {});
  EXPECT_EQ(out[0].values<int32_t>()[1], 7);
}

TEST(Kernels, ABoundKernelCanBeCopiedAndRunAgain) {
  use_one_thread_for_kernels();
  const TensorType matrix{DType::kF32, {2, 2}};
  const LocalCall call{"dot_general", {}, {}, "ij,jk->ik", {matrix, matrix}, {matrix}};
  Tensors inputs;
  inputs.push_back(Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  inputs.push_back(Tensor::of<float>({2, 2}, {1, 0, 1, 1}));
  const BoundKernel kernel = bind_kernel(call);
  const BoundKernel copy = kernel;
  for (const BoundKernel* bound : {&kernel, &copy, &kernel}) {
    const Tensors out = run_bound(*bound, call, inputs);
    const auto values = out[0].values<float>();
    EXPECT_EQ(std::vector<float>(values.begin(), values.end()),
              (std::vector<float>{3, 2, 7, 4}));  // 1*1 + 2*1, 1*0 + 2*1, ...
  }
}

}  // namespace
}  // namespace tessera
