// The operator of docs/add_an_operator.md passes the checks of the built-in ones.
#include <gtest/gtest.h>

#include "../examples/05_custom_op/mish.h"
#include "ir/ops/testing/operator_check.h"

namespace tessera {
namespace {

TEST(DocsOperator, PassesTheChecksOfTheBuiltInOnes) {
  for (const char* type : {"f32[5,7]", "f32[]", "f32[33,65]"})
    EXPECT_TRUE(operator_testing::check_operator(
        {.kind = "mish", .inputs = {parse_tensor_type(type)}, .operators = mish_operators()}));
}

}  // namespace
}  // namespace tessera
