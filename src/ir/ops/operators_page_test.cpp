// docs/operators.md is generated from the catalogue and from the cases of its tests.
// TESSERA_UPDATE_DOCS=1 writes it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/text/text.h"
#include "ir/ops/detail.h"
#include "ir/ops/internal/families.h"
#include "ir/ops/testing/operator_cases.h"

namespace tessera {
namespace {

using operator_testing::OperatorCase;

struct Family {
  std::string_view title;
  std::string_view text;
  std::span<const Operator> operators;
};

std::vector<Family> families() {
  return {{"One operand", "Element-wise, of f32; some also of i32.", unary_operators()},
          {"Two operands",
           "Element-wise, of one type and shape. Bits and logic are and, or, xor of i32 and bool.",
           binary_operators()},
          {"Choices and conversions",
           "compare takes eq, ne, lt, le, gt, ge; not turns a bool, or all bits of an i32.",
           choice_operators()},
          {"Sources", "Values that depend only on their position.", source_operators()},
          {"Contraction",
           "Any einsum of two operands; `einsum` of `ir/ops/einsum.h` writes one of any number of "
           "operands.",
           dot_operators()},
          {"Movement", "", movement_operators()},
          {"Reduction", "op is sum, max, min, prod, any or all.", reduce_operators()},
          {"Rows of a table", "An id outside the table reads zeros and adds nothing.",
           gather_operators()},
          {"Elements of lanes", "Like rows of a table, in each lane along one dim.",
           gather_along_operators()},
          {"Rows by several indices",
           "The last dim of ids holds one index for each of the first dims of the table.\n"
           "Of several updates of one row scatter_nd keeps the last.",
           gather_nd_operators()},
          {"Order",
           "Ties go to the lowest index. A NaN is above all numbers in an order;\n"
           "argmax and argmin both point at the first one.",
           order_operators()},
          {"Along a dim", "", scan_operators()},
          {"Groups of rows",
           "Rows are sorted by group; sizes is an operand. Rows left over give zeros.",
           grouped_operators()},
          {"Windows at run time",
           "Their starts are operands, one i32[] for each of dims.\n"
           "Outside, zeros are read and nothing is written.",
           dynamic_operators()},
          {"Attention", "", attention_operators()},
          {"Convolution", "Of one, two or three dims in space.", convolution_operators()},
          {"Pooling", "", pooling_operators()},
          {"Resize", "", resize_operators()}};
}

OpView operators_page_view_of(const Operator& op, const OperatorCase& given) {
  OpView view{"op", given.attributes, given.inputs, {}, &op};
  view.outputs = op.infer(view);
  return view;
}

std::string operators_page_kernel_of(const Operator& op, const OperatorCase& given) {
  const OpView view = operators_page_view_of(op, given);
  std::vector<Split> splits;
  for (const Factor& factor : op.rule(view).factors) splits.push_back({factor.extent, 1, {}});
  return op.kernel(view, splits).kernel;
}

constexpr double kByTerms = 1e9;  // above every number of roundings

/// The roundings that a tolerance allows, found by evaluating it: 0 is exact.
double roundings_of(const Operator& op, const OperatorCase& given) {
  const OpView view = operators_page_view_of(op, given);
  const std::vector<ReferenceTensor> inputs = operator_testing::sample_inputs(given);
  std::vector<ReferenceTensor> outputs = operator_testing::reference_results(op, given, inputs);
  ReferenceCall call{view, {}, outputs};
  for (const ReferenceTensor& input : inputs) call.inputs.push_back(&input);
  const std::vector<double> tolerance = op.tolerance(call, 0);
  if (tolerance == detail::exact(call, 0)) return 0;
  for (const double roundings :
       {detail::kOneRounding, detail::kFewRoundings, detail::kLibraryRoundings})
    if (tolerance == detail::rounded(call, 0, roundings)) return roundings;
  return kByTerms;
}

/// The largest error of all cases: f32 rounds where i32 does not.
std::string error_of(const Operator& op, const std::vector<OperatorCase>& cases) {
  double largest = 0;
  for (const OperatorCase& given : cases) largest = std::max(largest, roundings_of(op, given));
  if (largest == 0) return "exact";
  if (largest == kByTerms) return "by its terms";
  return largest == detail::kOneRounding ? "one rounding"
                                         : std::to_string(static_cast<int>(largest)) + " roundings";
}

std::string row(const Operator& op, const std::vector<OperatorCase>& cases) {
  std::vector<std::string> results;
  for (const TensorType& type : operators_page_view_of(op, cases[0]).outputs)
    results.push_back(to_text(type));
  std::set<std::string> kernels;
  for (const OperatorCase& given : cases) kernels.insert(operators_page_kernel_of(op, given));
  return "| " + std::string(op.name) + " | `" + operator_testing::to_text(cases[0]) + " -> " +
         join(results, ", ") + "` | `" + to_text(op.rule(operators_page_view_of(op, cases[0]))) +
         "` | " + (op.gradient ? "yes" : "no") + " | " +
         join(std::vector<std::string>(kernels.begin(), kernels.end()), " ") + " | " +
         error_of(op, cases) + " |\n";
}

constexpr std::string_view kIntroduction = R"(# Operators

A test generates this page from the catalogue (`src/ir/ops/internal/families.h`) and compares it;
`TESSERA_UPDATE_DOCS=1` writes it.

- **example** is one op with its attributes and the types of its operands and results.
- **sharding rule** is its rule on the example ([sharding](sharding.md)): a letter or name for each
  dim, `_` for a dim that stays whole. A factor without an annotation in braces is parallel;
  `linear` lists the operands through which partial values may pass.
- **gradient** says whether a gradient flows to f32 operands.
- **kernels** are names of `src/kernels/README.md`, each with a fast form and a plain twin.
- **error** bounds an f32 result against exact arithmetic on the same operands: exact; a number of
  roundings of 2^-24 of the result; or by the number and the absolute sum of the added terms.
  Results of i32 and bool are exact; i32 wraps. Whole numbers above 2^24 round when cast and iota
  convert them to f32.

What is f32 here may also be f16 or bf16. Kernels convert these to f32 and round each result once.
Products and sums of them have a result in f32 with the attribute `dtype = "f32"`: `dot_general`,
`reduce` with `op = "sum"`, the convolutions, `grouped_matmul`, `grouped_outer`, `scatter_add` and
`scatter_add_nd`.

Some functions are compositions of these ops: `where`, `clamp`, `one_hot`, `is_nan`, `is_finite`
(`ir/ops/compositions.h`), `einsum` (`ir/ops/einsum.h`), and the layers of `ir/models/layers.h`.
)";

std::string page() {
  std::map<std::string, std::vector<OperatorCase>> cases;
  for (const OperatorCase& given : operator_testing::operator_cases())
    cases[given.kind].push_back(given);
  std::string text(kIntroduction);
  for (const Family& family : families()) {
    text += "\n## " + std::string(family.title) + "\n\n";
    if (!family.text.empty()) text += std::string(family.text) + "\n\n";
    text +=
        "| operator | example | sharding rule | gradient | kernels | error "
        "|\n|---|---|---|---|---|---|\n";
    for (const Operator& op : family.operators) text += row(op, cases.at(std::string(op.name)));
  }
  return text;
}

TEST(OperatorsPage, HasEveryOperatorOfTheCatalogue) {
  std::set<std::string_view> listed, known;
  for (const Family& family : families())
    for (const Operator& op : family.operators) listed.insert(op.name);
  for (const Operator* op : all_operators()) known.insert(op->name);
  EXPECT_EQ(listed, known);
}

TEST(OperatorsPage, IsWhatTheCatalogueSays) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/docs/operators.md";
  if (std::getenv("TESSERA_UPDATE_DOCS") != nullptr) std::ofstream(path) << page();
  std::ostringstream written;
  written << std::ifstream(path).rdbuf();
  EXPECT_EQ(written.str(), page()) << "run this test with TESSERA_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace tessera
