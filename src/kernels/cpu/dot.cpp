// dot_general: an einsum of two operands as a loop of matrix products.
//
// Letters fall into four classes: batch (in a, b, out), rows (a, out), columns (b, out), inner (a,
// b). An operand whose memory is, for each batch position, a matrix of its two classes, plain or
// transposed, is used in place through a leading dim. Otherwise a transposing copy packs it.
// Classes with several letters need an order; the order that copies the fewest elements is chosen.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>

#include "base/tensor/einsum.h"
#include "kernels/cpu/binders.h"
#include "kernels/cpu/common/gemm.h"
#include "kernels/cpu/common/odometer.h"
#include "kernels/cpu/common/operands.h"
#include "kernels/cpu/common/strided_copy.h"

namespace tessera {
namespace {

Einsum einsum_of(const LocalCall& call) {
  const std::optional<Einsum> einsum = parse_einsum(call.text);
  require(call, einsum && einsum->operands.size() == 2,
          "the text is an einsum such as \"mk,kn->mn\"");
  return *einsum;
}

// An operand's extents and strides by letter.
struct Operand {
  std::string letters;
  Shape shape;
  Dims strides;

  Operand(std::string letters_of_dims, const Shape& extents)
      : letters(std::move(letters_of_dims)), shape(extents), strides(row_major_strides(extents)) {}
  int64_t extent(char letter) const { return shape[dim_of_letter(letters, letter)]; }
  int64_t stride(char letter) const { return strides[dim_of_letter(letters, letter)]; }
  int64_t extent_of(const std::string& group) const {
    int64_t product = 1;
    for (char letter : group) product *= extent(letter);
    return product;
  }
};

struct Operands {
  Operand a, b, out;
};

void check_letters(const LocalCall& call, const Operand& operand, const Operand& other,
                   const Operand& third) {
  require(call, std::ssize(operand.letters) == operand.shape.size(),
          "an operand has one letter for each dim");
  for (size_t i = 0; i < operand.letters.size(); ++i) {
    const char letter = operand.letters[i];
    require(call, operand.letters.find(letter, i + 1) == std::string::npos,
            "a letter occurs once in an operand");
    require(call, has_letter(other.letters, letter) || has_letter(third.letters, letter),
            "a letter occurs in two operands at least");
    if (has_letter(other.letters, letter))
      require(call, operand.extent(letter) == other.extent(letter), "a letter has one extent");
  }
}

// The letters of `order` that are in all of `in` and not in `not_in`.
std::string letters_where(const std::string& order, const std::string& in,
                          const std::string& not_in) {
  std::string chosen;
  for (char letter : order)
    if (has_letter(in, letter) && !has_letter(not_in, letter)) chosen += letter;
  return chosen;
}

// The stride of a group of letters as one dim of an operand; nullopt when they are not one dim. A
// group of one element has stride 0.
std::optional<int64_t> merged_stride(const Operand& operand, const std::string& group) {
  int64_t stride = 0, extent = 1;
  for (auto letter = group.rbegin(); letter != group.rend(); ++letter) {
    if (operand.extent(*letter) == 1) continue;
    if (extent != 1 && operand.stride(*letter) != stride * extent) return std::nullopt;
    if (extent == 1) stride = operand.stride(*letter);
    extent *= operand.extent(*letter);
  }
  return stride;
}

// A matrix in an operand's memory, for each batch position.
struct Layout {
  int64_t leading = 1;
  bool transposed = false;
  Dims batch_strides;
};

// A matrix of `group_rows` by `group_columns` of an operand in place: one of the two has stride 1,
// and the other the leading dim.
std::optional<Layout> layout_in_place(const Operand& operand, const std::string& batch,
                                      const std::string& group_rows,
                                      const std::string& group_columns) {
  const std::optional<int64_t> row_stride = merged_stride(operand, group_rows);
  const std::optional<int64_t> column_stride = merged_stride(operand, group_columns);
  if (!row_stride || !column_stride) return std::nullopt;
  const int64_t rows = operand.extent_of(group_rows), columns = operand.extent_of(group_columns);
  Layout layout;
  for (char letter : batch) layout.batch_strides.push_back(operand.stride(letter));
  if (columns == 1 || *column_stride == 1) {
    layout.leading = rows == 1 ? columns : *row_stride;
    if (layout.leading >= columns) return layout;
  }
  if (rows == 1 || *row_stride == 1) {
    layout.leading = columns == 1 ? rows : *column_stride;
    layout.transposed = true;
    if (layout.leading >= rows) return layout;
  }
  return std::nullopt;
}

// The layout of a dense [batch.., rows.., columns..].
Layout packed_layout(const Operand& operand, const std::string& batch, int64_t rows,
                     int64_t columns) {
  Shape extents;
  for (char letter : batch) extents.push_back(operand.extent(letter));
  Layout layout{columns, false, row_major_strides(extents)};
  for (int64_t& stride : layout.batch_strides) stride *= rows * columns;
  return layout;
}

// The copy between an operand's memory and letters laid out densely in `order`.
StridedBox packing_box(const Operand& operand, const std::string& order) {
  StridedBox box;
  for (char letter : order) {
    box.extents.push_back(operand.extent(letter));
    box.source_strides.push_back(operand.stride(letter));
  }
  box.target_strides = row_major_strides(box.extents);
  return box;
}

// The inverse copy: from dense letters in `order` to the operand's memory, in the order of that
// memory.
StridedBox unpacking_box(const Operand& operand, const std::string& order) {
  const StridedBox packing = packing_box(operand, order);
  StridedBox box{operand.shape, {}, operand.strides};
  for (char letter : operand.letters)
    box.source_strides.push_back(packing.target_strides[dim_of_letter(order, letter)]);
  return box;
}

// An order of the letters of each class.
struct Classes {
  std::string batch, rows, columns, inner;
};

// Can each operand stay in place under an order of the letters?
struct Placement {
  Classes classes;
  std::optional<Layout> a, b, out;

  int64_t copied(const Operands& operands) const {
    return (a ? 0 : element_count(operands.a.shape)) + (b ? 0 : element_count(operands.b.shape)) +
           (out ? 0 : element_count(operands.out.shape));
  }
};

Placement place(const Operands& operands, const Classes& classes) {
  return {classes, layout_in_place(operands.a, classes.batch, classes.rows, classes.inner),
          layout_in_place(operands.b, classes.batch, classes.inner, classes.columns),
          layout_in_place(operands.out, classes.batch, classes.rows, classes.columns)};
}

// Finds the best order. A class of letters is shared by two operands, so the orders of both are
// tried for each of the three classes.
Placement best_placement(const Operands& operands) {
  const std::string &a = operands.a.letters, &b = operands.b.letters, &out = operands.out.letters;
  const std::string batch = letters_where(letters_where(out, a, ""), b, "");
  std::optional<Placement> best;
  for (int choice = 0; choice < 8; ++choice) {
    const std::string& row_order = (choice & 1) ? a : out;
    const std::string& column_order = (choice & 2) ? b : out;
    const std::string& inner_order = (choice & 4) ? b : a;
    const Classes classes{batch, letters_where(letters_where(row_order, a, b), out, ""),
                          letters_where(letters_where(column_order, b, a), out, ""),
                          letters_where(letters_where(inner_order, a, out), b, "")};
    Placement placement = place(operands, classes);
    if (!best || placement.copied(operands) < best->copied(operands)) best = std::move(placement);
  }
  return *best;
}

// The state of run().
struct DotPlan {
  GemmShape shape;
  Dims batch_extents;
  Layout a, b, out;
  std::optional<StridedCopy> pack_a, pack_b, unpack_out;
  int64_t packed_a = 0, packed_b = 0, packed_out = 0;  // offsets in the workspace
  int64_t workspace = 0;
};

int64_t reserve(DotPlan& plan, const Operand& operand) {
  const int64_t offset = plan.workspace;
  plan.workspace += align_up(element_count(operand.shape) * size_of(DType::kF32));
  return offset;
}

DotPlan plan_dot(const Operands& operands) {
  const Placement placement = best_placement(operands);
  const auto& [batch, rows, columns, inner] = placement.classes;
  DotPlan plan;
  plan.shape = {operands.out.extent_of(rows), operands.out.extent_of(columns),
                operands.a.extent_of(inner)};
  for (char letter : batch) plan.batch_extents.push_back(operands.out.extent(letter));
  plan.a =
      placement.a.value_or(packed_layout(operands.a, batch, plan.shape.rows, plan.shape.inner));
  plan.b =
      placement.b.value_or(packed_layout(operands.b, batch, plan.shape.inner, plan.shape.columns));
  plan.out = placement.out.value_or(
      packed_layout(operands.out, batch, plan.shape.rows, plan.shape.columns));
  const int64_t element = size_of(DType::kF32);
  if (!placement.a) {
    plan.pack_a.emplace(packing_box(operands.a, batch + rows + inner), element);
    plan.packed_a = reserve(plan, operands.a);
  }
  if (!placement.b) {
    plan.pack_b.emplace(packing_box(operands.b, batch + inner + columns), element);
    plan.packed_b = reserve(plan, operands.b);
  }
  if (!placement.out) {
    plan.unpack_out.emplace(unpacking_box(operands.out, batch + rows + columns), element);
    plan.packed_out = reserve(plan, operands.out);
  }
  return plan;
}

const float* packed(const std::optional<StridedCopy>& pack, const std::byte* operand,
                    std::byte* space) {
  if (!pack) return reinterpret_cast<const float*>(operand);
  pack->run(operand, space);
  return reinterpret_cast<const float*>(space);
}

// out = a b, or out^T = b^T a^T when the output's memory is transposed.
void multiply(const DotPlan& plan, const float* a, const float* b, float* out) {
  const MatrixView left{a, plan.a.leading, plan.a.transposed};
  const MatrixView right{b, plan.b.leading, plan.b.transposed};
  if (!plan.out.transposed)
    return gemm(plan.shape, 1.0f, left, right, false, out, plan.out.leading);
  const GemmShape swapped{plan.shape.columns, plan.shape.rows, plan.shape.inner};
  gemm(swapped, 1.0f, {b, plan.b.leading, !plan.b.transposed},
       {a, plan.a.leading, !plan.a.transposed}, false, out, plan.out.leading);
}

void run_dot(const DotPlan& plan, const KernelBuffers& buffers) {
  const float* a = packed(plan.pack_a, buffers.inputs[0], buffers.workspace + plan.packed_a);
  const float* b = packed(plan.pack_b, buffers.inputs[1], buffers.workspace + plan.packed_b);
  std::byte* const product =
      plan.unpack_out ? buffers.workspace + plan.packed_out : buffers.outputs[0];
  Odometer<3> position(plan.batch_extents,
                       {plan.a.batch_strides, plan.b.batch_strides, plan.out.batch_strides});
  const int64_t batches = element_count(plan.batch_extents);
  for (int64_t i = 0; i < batches; ++i, position.step())
    multiply(plan, a + position.offset(0), b + position.offset(1),
             reinterpret_cast<float*>(product) + position.offset(2));
  if (plan.unpack_out) plan.unpack_out->run(product, buffers.outputs[0]);
}

Operands operands_of(const LocalCall& call) {
  const Einsum einsum = einsum_of(call);
  return {Operand(einsum.a(), call.inputs[0].shape), Operand(einsum.b(), call.inputs[1].shape),
          Operand(einsum.result, call.outputs[0].shape)};
}

}  // namespace

BoundKernel bind_dot_general(const LocalCall& call) {
  require_operands(call, 2, 1);
  for (const TensorType& type : call.inputs)
    require(call, type.dtype == DType::kF32, "multiplies f32");
  require(call, call.outputs[0].dtype == DType::kF32, "gives f32");
  const Operands operands = operands_of(call);
  check_letters(call, operands.a, operands.b, operands.out);
  check_letters(call, operands.b, operands.out, operands.a);
  check_letters(call, operands.out, operands.a, operands.b);
  const DotPlan plan = plan_dot(operands);
  const auto run = [plan](const KernelBuffers& buffers) { run_dot(plan, buffers); };
  return {run, Bytes(plan.workspace)};
}

/// A multiplication and an addition for each combination of all letters.
LocalWork work_of_dot_general(const LocalCall& call) {
  const auto& [a, b, out] = operands_of(call);
  double products = static_cast<double>(a.extent_of(a.letters));
  for (char letter : b.letters)
    if (!has_letter(a.letters, letter)) products *= static_cast<double>(b.extent(letter));
  LocalWork work = work_over_operands(call, OperationClass::kMatmul, 2 * products);
  for (char letter : letters_where(letters_where(out.letters, a.letters, ""), b.letters, ""))
    work.pieces *= static_cast<double>(out.extent(letter));
  // By where the letters are: rows of the result, its columns, and those that are summed over.
  double rows = 1, columns = 1, summed = 1;
  for (char letter : a.letters) {
    const bool is_in_b = has_letter(b.letters, letter), is_in_out = has_letter(out.letters, letter);
    if (!is_in_b && is_in_out) rows *= static_cast<double>(a.extent(letter));
    if (is_in_b && !is_in_out) summed *= static_cast<double>(a.extent(letter));
  }
  for (char letter : b.letters)
    if (!has_letter(a.letters, letter)) columns *= static_cast<double>(b.extent(letter));
  work.smallest_extent = std::min({rows, columns, summed});
  return work;
}

Bytes workspace_of_dot_general(const LocalCall& call) {
  return Bytes(plan_dot(operands_of(call)).workspace);
}

}  // namespace tessera
