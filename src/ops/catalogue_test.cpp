#include <gtest/gtest.h>

#include <set>
#include <string>

#include "ops/operator.h"

namespace tessera {
namespace {

TEST(Catalogue, HasEveryKindOnce) {
  const std::set<std::string_view> expected{"neg",
                                            "abs",
                                            "exp",
                                            "log",
                                            "sqrt",
                                            "rsqrt",
                                            "tanh",
                                            "logistic",
                                            "erf",
                                            "sin",
                                            "cos",
                                            "floor",
                                            "square",
                                            "sign",
                                            "add",
                                            "sub",
                                            "mul",
                                            "div",
                                            "max",
                                            "min",
                                            "pow",
                                            "floordiv",
                                            "mod",
                                            "and",
                                            "or",
                                            "xor",
                                            "add_scalar",
                                            "mul_scalar",
                                            "max_scalar",
                                            "min_scalar",
                                            "pow_scalar",
                                            "compare",
                                            "not",
                                            "select",
                                            "cast",
                                            "stop_gradient",
                                            "constant",
                                            "iota",
                                            "broadcast",
                                            "reshape",
                                            "pad",
                                            "random_uniform",
                                            "slice",
                                            "transpose",
                                            "dot_general",
                                            "concat",
                                            "reduce",
                                            "gather",
                                            "scatter_add",
                                            "attention",
                                            "attention_grad",
                                            "dynamic_slice",
                                            "dynamic_update",
                                            "convolution",
                                            "convolution_grad_input",
                                            "convolution_grad_weight",
                                            "max_pool",
                                            "max_pool_grad",
                                            "average_pool",
                                            "average_pool_grad",
                                            "resize",
                                            "resize_grad"};
  std::multiset<std::string_view> found;
  for (const Operator* op : all_operators()) found.insert(op->name);
  EXPECT_EQ(std::set<std::string_view>(found.begin(), found.end()), expected);
  EXPECT_EQ(found.size(), expected.size());
}

TEST(Catalogue, DefinesEveryOperatorWhole) {
  for (const Operator* op : all_operators()) {
    EXPECT_TRUE(op->infer && op->rule && op->work && op->kernel && op->reference && op->tolerance) << op->name;
    EXPECT_EQ(&find_operator(op->name), op);
  }
}

TEST(Catalogue, LetsNoGradientThroughWhatIsFlatOrStopped) {
  for (std::string_view name : {"floor", "sign", "compare", "not", "stop_gradient", "constant", "iota", "random_uniform", "and", "mod"})
    EXPECT_EQ(find_operator(name).gradient, nullptr) << name;
}

TEST(Catalogue, NamesTheNearestOperator) {
  try {
    find_operator("logistik");
    FAIL() << "'logistik' was found";
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()), "'logistik' is not an operator\n  why: the catalogue has " +
                                             std::to_string(all_operators().size()) +
                                             " operators, none of this name\n  fix: did you mean 'logistic'?");
    EXPECT_EQ(error.exit_code(), ExitCode::kBadData);
  }
}

}  // namespace
}  // namespace tessera
