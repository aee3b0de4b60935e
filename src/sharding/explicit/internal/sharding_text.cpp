#include "sharding/explicit/internal/sharding_text.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "sharding/propagation/candidates.h"
#include "sharding/propagation/mesh_assignment.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(std::string_view text, const std::string& what, const std::string& why,
                         const std::string& fix) {
  throw UserError("'" + std::string(text) + "' " + what, why, fix, ExitCode::kBadConfig);
}

/// Without "@axis".
std::string without_axis(std::string_view text, std::string_view axis) {
  const std::string use = "@" + std::string(axis);
  std::string result(text);
  for (size_t at = result.find(use); at != std::string::npos; at = result.find(use, at)) {
    const size_t end = at + use.size();
    if (end == result.size() || std::string_view("@:/~,]} ").find(result[end]) != std::string::npos)
      result.erase(at, use.size());
    else
      at = end;
  }
  return result;
}

std::string for_mesh(std::string_view text, const Mesh& mesh) {
  return mesh.find_axis(kMicroBatchAxis) ? std::string(text) : without_axis(text, kMicroBatchAxis);
}

std::string factor_name(const ShardingRule& rule, size_t factor) {
  const std::string& name = rule.factors[factor].name;
  return rule.find(name) == static_cast<int>(factor) ? name : name + "#" + std::to_string(factor);
}

size_t factor_called(std::string_view name, std::string_view text, const ShardingRule& rule) {
  std::vector<std::string> names;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (factor_name(rule, f) == name) return f;
    names.push_back(factor_name(rule, f));
  }
  refuse(text, "names the factor '" + std::string(name) + "', which the op does not have",
         names.empty() ? "the op has no factors" : "its factors are " + join(names, ", "),
         "use one of these");
}

/// The division of one factor, as that of a tensor with one dim.
DimSharding read_division(std::string_view division, const Factor& factor, const MeshPtr& mesh) {
  return parse_dist_type("f32[" + std::to_string(factor.extent) + std::string(division) + "]", mesh)
      .attr.dims.front();
}

std::string division_text(const OpSharding& sharding, size_t factor) {
  const auto windows = sharding.windows_of(factor);
  const DistAttr attr{sharding.mesh,
                      {{sharding.factor_axes[factor],
                        1,
                        {windows.begin(), windows.end()},
                        sharding.chunks_of(factor)}},
                      {}};
  const std::string text = to_text(attr);
  return text.substr(1, text.size() - 2);
}

// ---- checks ----

template <typename Test>
bool any_dim_of(const ShardingRule& rule, size_t factor, const Test& test) {
  for (const auto* operands : {&rule.inputs, &rule.outputs})
    for (const OperandFactors& operand : *operands)
      for (const DimFactor& dim : operand)
        if (const DimFactor* found = find_factor(dim, static_cast<int>(factor));
            found && test(dim, *found))
          return true;
  return false;
}

void take_windows(std::string_view text, const ShardingRule& rule, size_t factor,
                  std::vector<Window> windows, OpSharding& sharding) {
  const std::string name = "'" + rule.factors[factor].name + "'";
  const bool is_cut = any_dim_of(rule, factor, [](const DimFactor& dim, const DimFactor& found) {
    return found.unit != 1 || found.chunks != 1 || !dim.others.empty();
  });
  if (rule.factors[factor].kind != FactorKind::kParallel || is_cut)
    refuse(text, "divides the factor " + name + " by windows",
           is_cut ? "a dim with it is cut in units or chunks, and a window may end inside one"
                  : "parts that overlap would be reduced twice",
           "leave out the window");
  const auto& axes = sharding.factor_axes[factor];
  if (std::any_of(axes.begin(), axes.end(),
                  [&](int axis) { return is_time(*sharding.mesh, axis); }))
    refuse(text, "divides the factor " + name + " by micro-batches and windows",
           "micro-batches do not overlap", "leave out the window");
  sharding.set_windows(rule, factor, std::move(windows));
}

void take_chunks(std::string_view text, const OpView& op, const ShardingRule& rule, size_t factor,
                 int64_t chunks, OpSharding& sharding) {
  const std::string name = "'" + rule.factors[factor].name + "'";
  const bool has_window = any_dim_of(
      rule, factor, [](const DimFactor&, const DimFactor& found) { return found.window; });
  if (rule.factors[factor].extent % chunks == 0 && !has_window)
    tessera::take_chunks(op, rule, static_cast<int>(factor), chunks, sharding);
  if (sharding.chunks_of(factor) != chunks)
    refuse(text, "divides the factor " + name + " in chunks",
           "chunks are equal parts of a factor of which the kernel need not know the position",
           "leave out '/" + std::to_string(chunks) + "'");
}

void take_axes(std::string_view text, const ShardingRule& rule, size_t factor, const Axes& axes,
               OpSharding& sharding) {
  const Factor& divided = rule.factors[factor];
  if (!axes.empty() && !sharding.may_divide(rule, static_cast<int>(factor)))
    refuse(text, "divides the factor '" + divided.name + "'",
           divided.kind == FactorKind::kWhole ? "the operator needs it whole"
                                              : "another factor of one of its dims is divided",
           "leave it out");
  for (const int axis : axes) {
    const std::string& name = sharding.mesh->axes()[axis];
    if (sharding.uses(axis))
      refuse(text, "uses the axis '" + name + "' twice", "an axis divides one factor of an op",
             "remove one of the two uses");
    if (!is_time(*sharding.mesh, axis)) continue;
    if (axis != axes.front() ||
        !may_divide_by_micro_batches(rule, static_cast<int>(factor), sharding.mesh->shape()[axis]))
      refuse(text, "divides the factor '" + divided.name + "' by micro-batches",
             "they are the first axis of a factor, of equal parts that do not overlap",
             "leave out '@" + name + "'");
  }
  sharding.factor_axes[factor] = axes;
}

// ---- parts of the text ----

void read_factor(std::string_view item, std::string_view text, const OpView& op,
                 const ShardingRule& rule, OpSharding& sharding) {
  const size_t at = std::min(item.find('@'), item.size());
  const size_t factor = factor_called(trim(item.substr(0, at)), text, rule);
  if (!sharding.factor_axes[factor].empty())
    refuse(text, "divides the factor '" + rule.factors[factor].name + "' twice",
           "a factor is written once, with all its axes", "write d0@dp@tp");
  DimSharding division = read_division(item.substr(at), rule.factors[factor], sharding.mesh);
  take_axes(text, rule, factor, division.axes, sharding);
  if (!division.windows.empty())
    take_windows(text, rule, factor, std::move(division.windows), sharding);
  if (division.chunks > 1) take_chunks(text, op, rule, factor, division.chunks, sharding);
}

/// "0, 1: tp" of "{sum 0, 1: tp}".
void read_passed(std::string_view passed, std::string_view text, const ShardingRule& rule,
                 OpSharding& sharding) {
  const size_t colon = std::min(passed.find(':'), passed.size());
  const std::string_view inputs = trim(passed.substr(0, colon));
  const std::string_view axis_name =
      colon == passed.size() ? std::string_view() : trim(passed.substr(colon + 1));
  const int axis = sharding.mesh->axis(axis_name);
  std::vector<std::string> sets;
  for (size_t set = 0; set < rule.linear.size(); ++set) {
    sets.push_back(text_of_linear_set(rule.linear[set]));
    if (sets.back() != inputs) continue;
    if (sharding.uses(axis))
      refuse(text, "uses the axis '" + std::string(axis_name) + "' twice",
             "an axis divides a factor or passes partial sums", "remove one of the two uses");
    sharding.linear.push_back({axis, static_cast<int>(set)});
    return;
  }
  refuse(text, "passes on partial sums of inputs " + std::string(inputs),
         sets.empty() ? "the op is not linear" : "the op is linear in inputs " + join(sets, "; "),
         "write {sum 0: tp} with one of these sets, or leave it out");
}

}  // namespace

std::string to_text(const ShardingRule& rule, const OpSharding& sharding) {
  std::vector<std::string> items;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    if (!sharding.factor_axes[f].empty())
      items.push_back(factor_name(rule, f) + division_text(sharding, f));
  for (const LinearAxis& passed : sharding.linear) {
    items.push_back("{sum " + text_of_linear_set(rule.linear[passed.set]) + ": " +
                    sharding.mesh->axes()[passed.axis] + "}");
  }
  return items.empty() ? std::string(kWholeOp) : join(items, ", ");
}

OpSharding parse_op_sharding(std::string_view given, const OpView& op, const ShardingRule& rule,
                             const MeshPtr& mesh) {
  const std::string text = for_mesh(given, *mesh);
  OpSharding sharding = OpSharding::replicated(mesh, rule);
  if (trim(text) == kWholeOp) return sharding;
  for (std::string_view rest = trim(text); !rest.empty();) {
    const bool is_passed = rest.starts_with("{sum ");
    size_t end = is_passed ? rest.find('}') : rest.find(',');
    if (is_passed && end == std::string_view::npos)
      refuse(text, "is not the sharding of an op", "a brace is not closed", "write {sum 0: tp}");
    end = std::min(end, rest.size());
    if (is_passed)
      read_passed(rest.substr(5, end - 5), text, rule, sharding);
    else
      read_factor(rest.substr(0, end), text, op, rule, sharding);
    rest = trim(rest.substr(std::min(is_passed ? end + 1 : end, rest.size())));
    if (rest.starts_with(',')) rest = trim(rest.substr(1));
  }
  return sharding;
}

DistAttr parse_value_placement(std::string_view given, const Shape& shape, const MeshPtr& mesh) {
  return parse_dist_attr(for_mesh(given, *mesh), shape, mesh);
}

}  // namespace tessera
