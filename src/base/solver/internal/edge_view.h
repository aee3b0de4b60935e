// The costs of an edge, seen from one of its ends.
#pragma once

#include <cstdint>
#include <span>

#include "base/solver/internal/network.h"

namespace tessera::solver {

/// The costs of an edge with the strategies of `node` as rows.
class EdgeView {
 public:
  EdgeView(const Network::Edge& edge, int32_t node)
      : matrix_(edge.a == node ? *edge.costs : turned_),
        turned_(edge.a == node ? Matrix{} : transposed(*edge.costs)) {}
  EdgeView(const EdgeView&) = delete;
  EdgeView& operator=(const EdgeView&) = delete;

  const Matrix& operator*() const { return matrix_; }
  const Matrix* operator->() const { return &matrix_; }
  std::span<const Cost> row(int32_t s) const {
    return std::span(matrix_.costs)
        .subspan(static_cast<size_t>(s) * matrix_.columns, matrix_.columns);
  }

 private:
  const Matrix& matrix_;
  const Matrix turned_;
};

}  // namespace tessera::solver
