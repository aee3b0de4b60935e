#include "base/solver/internal/min_plus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/solver/testing/random_problems.h"

namespace tessera::solver {
namespace {

TEST(MinPlus, IsTheLeastSumForEveryWidth) {
  Draw draw(1);
  for (int32_t rows = 1; rows <= 9; ++rows)
    for (int32_t columns = 1; columns <= 35; ++columns) {
      std::vector<double> x(rows), table(static_cast<size_t>(rows) * columns), out(columns),
          expected(columns, 1e300);
      for (double& number : x) number = static_cast<double>(draw(-100, 100));
      for (double& number : table) number = static_cast<double>(draw(-100, 100));
      for (int32_t s = 0; s < rows; ++s)
        for (int32_t t = 0; t < columns; ++t)
          expected[t] = std::min(expected[t], x[s] + table[s * columns + t]);
      min_plus(x.data(), table.data(), rows, columns, out.data());
      EXPECT_EQ(out, expected) << rows << " x " << columns;
      std::vector<double> sum = out;
      add_row(sum.data(), table.data(), columns);
      for (int32_t t = 0; t < columns; ++t) EXPECT_EQ(sum[t], out[t] + table[t]);
    }
}

}  // namespace
}  // namespace tessera::solver
