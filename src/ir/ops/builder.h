// Writes ops into a graph. It infers their types by the catalogue and names them by scope. Layers,
// gradients and optimizers all use it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/ops/operator.h"

namespace tessera {

/// Appends ops to a graph.
///
///   names   scope + "." + the given name, or the operator's kind when none is given; made unique
///           by _1, _2, ...
///   throws  UserError (65) when operands do not fit
class Builder {
 public:
  explicit Builder(Graph& graph, uint64_t seed = 0) : graph_(graph), seed_(seed) {}

  Graph& graph() { return graph_; }
  const TensorType& type(ValueId value) const { return graph_.type(value); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  uint64_t seed() const { return seed_; }

  /// Prefixes names as long as the guard exists: `auto scope = builder.scope("attn");`
  class Scope {
   public:
    Scope(Builder& builder, std::string_view name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    size_t length_;
  };
  [[nodiscard]] Scope scope(std::string_view name) { return Scope(*this, name); }
  /// The path of `name` in the current scope.
  std::string path(std::string_view name) const;
  const std::string& scope_path() const { return scope_; }

  /// Sets the role and the origin of the following ops.
  void derive(Role role, Origin origin) {
    role_ = role;
    origin_ = std::move(origin);
  }
  Role role() const { return role_; }
  const Origin& origin() const { return origin_; }

  /// Appends any op of the catalogue, or of the graph's own operators. `name` is not yet scoped; ""
  /// stands for the kind.
  std::vector<ValueId> op(std::string_view kind, std::vector<ValueId> inputs,
                          Attributes attributes = {}, std::string_view name = {},
                          std::vector<GraphPtr> regions = {});
  ValueId op1(std::string_view kind, std::vector<ValueId> inputs, Attributes attributes = {},
              std::string_view name = {});

  ValueId input(std::string_view name, const TensorType& type);
  ValueId variable(std::string_view name, const TensorType& type, const Initializer& initializer,
                   bool trainable = true);

  // The primitives. Element-wise ops take equal shapes: broadcasting is an op of its own.
  /// An einsum of two operands, such as "bse,ehd->bshd".
  ValueId dot(ValueId a, ValueId b, std::string_view spec, std::string_view name = {});
  ValueId add(ValueId a, ValueId b, std::string_view name = {});
  ValueId sub(ValueId a, ValueId b, std::string_view name = {});
  ValueId mul(ValueId a, ValueId b, std::string_view name = {});
  ValueId div(ValueId a, ValueId b, std::string_view name = {});
  ValueId maximum(ValueId a, ValueId b, std::string_view name = {});
  ValueId minimum(ValueId a, ValueId b, std::string_view name = {});
  /// `kind` is "exp", "neg", "tanh", ...
  ValueId unary(std::string_view kind, ValueId x, std::string_view name = {});
  ValueId add_scalar(ValueId x, double c, std::string_view name = {});
  ValueId mul_scalar(ValueId x, double c, std::string_view name = {});
  ValueId max_scalar(ValueId x, double c, std::string_view name = {});
  ValueId min_scalar(ValueId x, double c, std::string_view name = {});
  ValueId pow_scalar(ValueId x, double c, std::string_view name = {});
  /// `relation` is "eq", "ne", "lt", "le", "gt" or "ge".
  ValueId compare(std::string_view relation, ValueId a, ValueId b, std::string_view name = {});
  ValueId select(ValueId condition, ValueId a, ValueId b, std::string_view name = {});
  ValueId cast(ValueId x, DType dtype, std::string_view name = {});
  ValueId constant(const TensorType& type, double value, std::string_view name = {});
  ValueId iota(const TensorType& type, int dim, std::string_view name = {});
  /// Dim i of x becomes dim dims[i] of the result. An extent of 1 may grow.
  ValueId broadcast(ValueId x, const Shape& shape, const std::vector<int64_t>& dims,
                    std::string_view name = {});
  /// x, or its broadcast over the leading dims that it lacks, as numpy does.
  ValueId broadcast_leading(ValueId x, const Shape& shape, std::string_view name = {});
  ValueId reshape(ValueId x, const Shape& shape, std::string_view name = {});
  ValueId transpose(ValueId x, const std::vector<int64_t>& permutation, std::string_view name = {});
  ValueId slice(ValueId x, const std::vector<int64_t>& start, const std::vector<int64_t>& limit,
                const std::vector<int64_t>& stride, std::string_view name = {});
  ValueId pad(ValueId x, const std::vector<int64_t>& low, const Shape& shape, double value,
              std::string_view name = {});
  ValueId concat(const std::vector<ValueId>& parts, int dim, std::string_view name = {});
  /// The reduced dims are removed.
  ValueId reduce(ReduceOp op, ValueId x, const std::vector<int64_t>& dims,
                 std::string_view name = {});
  ValueId reduce_sum(ValueId x, const std::vector<int64_t>& dims, std::string_view name = {}) {
    return reduce(ReduceOp::kSum, x, dims, name);
  }
  /// The rows of dim 0 that `ids` select; zeros for an id out of range.
  ValueId gather(ValueId table, ValueId ids, std::string_view name = {});
  /// A result of shape [rows, ...]. Updates whose id is out of range are dropped.
  ValueId scatter_add(ValueId ids, ValueId updates, int64_t rows, std::string_view name = {});
  /// The window of `sizes` that begins at the i32[] starts[k] in dims[k]. It includes all of the
  /// other dims, and zeros outside x.
  ValueId dynamic_slice(ValueId x, const std::vector<ValueId>& starts,
                        const std::vector<int64_t>& dims, const std::vector<int64_t>& sizes,
                        std::string_view name = {});
  /// x with `update` written at the i32[] starts[k] in dims[k]. The part outside x is dropped.
  ValueId dynamic_update(ValueId x, ValueId update, const std::vector<ValueId>& starts,
                         const std::vector<int64_t>& dims, std::string_view name = {});
  /// Uniform in [0,1), of the given shape. The key is made of the seed and the op's name, the
  /// counter of the step and the logical index. In a region of a loop the iteration is part of the
  /// counter, so each iteration samples other numbers.
  ValueId random_uniform(ValueId step, const Shape& shape, std::string_view name = {},
                         std::optional<ValueId> iteration = {});
  ValueId stop_gradient(ValueId x, std::string_view name = {});
  struct Attention {
    ValueId out;
    ValueId log_sum_exp;
  };
  /// The shapes are q[B,S,H,D], k[B,T,H,D] and v[B,T,H,D].
  Attention attention(ValueId q, ValueId k, ValueId v, bool causal, double scale,
                      std::string_view name = {});

 private:
  Graph& graph_;
  uint64_t seed_;
  std::string scope_;
  Role role_ = Role::kForward;
  Origin origin_;
};

}  // namespace tessera
