// The text notations of placements.
#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/text/text.h"
#include "sharding/layout/dist_attr.h"

namespace tessera {
namespace {

[[noreturn]] void malformed(std::string_view text, const std::string& why,
                            const std::string& form) {
  throw UserError("'" + std::string(text) + "' is not a placement", why, "write it as " + form,
                  ExitCode::kBadConfig);
}

constexpr const char* kTypeForm = "f32[32@dp, 4096@tp] or f32[8, 16] {partial sum: tp}";
constexpr const char* kAttrForm = "[@dp, @tp, *] or [*, @tp/3] {partial sum: dp}";
constexpr const char* kWindowForm =
    "f32[64@h~32(*2-1:+1)]: rows 2b-1 to 2(e-1)+1 of 64 for each part [b, e) of 32";
constexpr const char* kPlacementsForm =
    "Shard(0), Replicate() (one an axis) or tp: Shard(1), ep: Partial(sum)";
constexpr const char* kSpecForm =
    "P(\"dp\", None, \"tp\"), P((\"dp\",\"cp\"), None), P(?, \"tp\") or P(3*\"tp\")";

std::string dim_text(const DistAttr& attr, size_t dim) {
  std::string text;
  for (int axis : attr.dims[dim].axes) text += "@" + attr.mesh->axes()[axis];
  if (text.empty()) return text;
  if (attr.dims[dim].unit != 1) text += ":" + std::to_string(attr.dims[dim].unit);
  if (attr.dims[dim].chunks != 1) text += "/" + std::to_string(attr.dims[dim].chunks);
  for (const Window& window : attr.dims[dim].windows)
    text += "~" + std::to_string(window.from) + to_text(window);
  return text;
}

std::string partial_text(const DistAttr& attr) {
  std::vector<std::string> groups;
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kProd,
                      ReduceOp::kAny, ReduceOp::kAll}) {
    std::vector<std::string> axes;
    for (const PartialAxis& p : attr.partial)
      if (p.reduce == op) axes.push_back(attr.mesh->axes()[p.axis]);
    if (!axes.empty()) groups.push_back(std::string(to_text(op)) + ": " + join(axes, ", "));
  }
  return groups.empty() ? "" : " {partial " + join(groups, "; ") + "}";
}

int64_t read_integer(std::string_view text, std::string_view whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    malformed(whole, "'" + std::string(text) + "' is not a count", kTypeForm);
  return value;
}

/// Removes `sign` and the number after it from the front of `text`; 1 when the text does not begin
/// with it.
int64_t take_scale(std::string_view& text, char sign, std::string_view whole) {
  if (!text.starts_with(sign)) return 1;
  const size_t end = std::min(text.find_first_of("*/+-", 1), text.size());
  const int64_t value = read_integer(text.substr(1, end - 1), whole);
  if (value == 0) malformed(whole, "a window multiplies and divides by 1 or more", kWindowForm);
  text.remove_prefix(end);
  return value;
}

int64_t read_offset(std::string_view text, std::string_view whole) {
  if (!text.starts_with('+') && !text.starts_with('-'))
    malformed(whole, "the ends of a window have a sign", kWindowForm);
  return (text.front() == '-' ? -1 : 1) * read_integer(text.substr(1), whole);
}

/// Parses "16(*2-1:+1)". The extent to which the window maps is known later.
Window read_window(std::string_view text, std::string_view whole) {
  const size_t open = text.find('('), colon = text.find(':');
  if (open == std::string_view::npos || colon == std::string_view::npos || colon < open ||
      !text.ends_with(")"))
    malformed(whole, "'" + std::string(text) + "' is not a window", kWindowForm);
  Window window;
  window.from = read_integer(text.substr(0, open), whole);
  std::string_view begin = text.substr(open + 1, colon - open - 1);
  window.num = take_scale(begin, '*', whole);
  window.den = take_scale(begin, '/', whole);
  window.before = read_offset(begin, whole);
  window.after = read_offset(text.substr(colon + 1, text.size() - colon - 2), whole);
  return window;
}

void use_axis(DistAttr& attr, int axis) {
  if (attr.uses(axis))
    throw UserError("the mesh axis '" + attr.mesh->axes()[axis] + "' is used twice for one tensor",
                    "an axis divides one dim of a tensor or makes it partial, once",
                    "remove one of the two uses", ExitCode::kBadConfig);
}

void read_dim(std::string_view item, std::string_view whole, DistType& result) {
  const std::vector<std::string> windows = split_text(trim(item), '~');
  std::vector<std::string> parts = split_text(windows.front(), '@');
  result.type.shape.push_back(read_integer(trim(parts[0]), whole));
  const size_t dim = static_cast<size_t>(result.type.shape.size()) - 1;
  result.attr.dims.emplace_back();
  std::vector<Window>& list = result.attr.dims[dim].windows;
  for (size_t i = 1; i < windows.size(); ++i) list.push_back(read_window(windows[i], whole));
  for (size_t i = 0; i < list.size(); ++i)
    list[i].to = i + 1 < list.size() ? list[i + 1].from : result.type.shape[static_cast<int>(dim)];
  if (!list.empty() && parts.size() == 1)
    malformed(whole, "a window is of what an axis divides", kWindowForm);
  for (size_t i = 1; i < parts.size(); ++i) {
    std::string name(trim(parts[i]));
    if (const size_t slash = name.find('/'); slash != std::string::npos) {
      result.attr.dims[dim].chunks = read_integer(std::string_view(name).substr(slash + 1), whole);
      name.resize(slash);
    }
    if (const size_t colon = name.find(':'); colon != std::string::npos) {
      result.attr.dims[dim].unit = read_integer(std::string_view(name).substr(colon + 1), whole);
      name.resize(colon);
    }
    const int axis = result.attr.mesh->axis(name);
    use_axis(result.attr, axis);
    result.attr.dims[dim].axes.push_back(axis);
  }
  const DimSharding& read = result.attr.dims[dim];
  if (read.chunks < 1 || read.unit < 1)
    malformed(whole, "there is at least one chunk, and one element in a unit", kTypeForm);
  if (read.chunks > 1 && !list.empty())
    malformed(whole, "what is divided in chunks has no windows", kWindowForm);
}

void read_partial(std::string_view text, std::string_view whole, DistAttr& attr) {
  if (text.empty()) return;
  if (!text.starts_with("{partial ") || !text.ends_with("}"))
    malformed(whole, "what follows ] must be {partial ...}", kTypeForm);
  for (const std::string& group : split_text(text.substr(9, text.size() - 10), ';')) {
    const size_t colon = group.find(':');
    if (colon == std::string::npos)
      malformed(whole, "a partial group names its reduction and its axes", kTypeForm);
    const ReduceOp op = parse_reduce_op(trim(std::string_view(group).substr(0, colon)));
    for (const std::string& text_of_axis :
         split_text(std::string_view(group).substr(colon + 1), ',')) {
      const std::string_view name = trim(std::string_view(text_of_axis));
      // What is partial over micro-batches is whole where there are none.
      if (name == kMicroBatchAxis && !attr.mesh->find_axis(name)) continue;
      const int axis = attr.mesh->axis(name);
      use_axis(attr, axis);
      attr.partial.push_back({axis, op});
    }
  }
  std::sort(attr.partial.begin(), attr.partial.end(),
            [](const PartialAxis& a, const PartialAxis& b) { return a.axis < b.axis; });
}

/// The number in front of the '*' of 3*"tp".
int64_t read_chunk_count(std::string_view item, size_t times, std::string_view whole) {
  const int64_t count = read_integer(item.substr(0, times), whole);
  if (count < 2) malformed(whole, "chunks are two or more", kSpecForm);
  return count;
}

/// Removes "?" at the end of the axes of a dim. Returns whether it was there.
bool take_open(std::string& axes) {
  if (!axes.ends_with('?')) return false;
  axes.pop_back();
  if (axes.ends_with(',')) axes.pop_back();
  return true;
}

bool has_closed_brackets(std::string_view text) {
  int depth = 0;
  for (const char letter : text) {
    depth += letter == '(' ? 1 : letter == ')' ? -1 : 0;
    if (depth < 0) return false;
  }
  return depth == 0;
}

Placement read_placement(std::string_view item, std::string_view whole) {
  if (item == "Replicate()" || item == "Replicate") return Replicate();
  if (item == "Partial()" || item == "Partial") return Partial();
  if (!item.ends_with(")"))
    malformed(whole,
              "'" + std::string(item) + "' is not one of Shard(dim), Replicate(), Partial(op)",
              kPlacementsForm);
  if (item.starts_with("Shard("))
    return Shard(static_cast<int>(read_integer(trim(item.substr(6, item.size() - 7)), whole)));
  if (item == "Partial(mean)")
    malformed(whole,
              "a mean of the parts is not the mean of the whole where parts differ in size, and "
              "the division of a sum is an op of the model",
              "Partial(sum): the sums are added first, and the model divides by the whole count");
  if (item.starts_with("Partial("))
    return Partial(parse_reduce_op(trim(item.substr(8, item.size() - 9))));
  malformed(whole, "'" + std::string(item) + "' is not one of Shard(dim), Replicate(), Partial(op)",
            kPlacementsForm);
}

}  // namespace

std::string to_text(const TensorType& type, const DistAttr& attr) {
  std::vector<std::string> dims;
  for (int d = 0; d < std::ssize(attr.dims); ++d)
    dims.push_back(std::to_string(type.shape[d]) + dim_text(attr, d));
  return std::string(to_text(type.dtype)) + "[" + join(dims, ", ") + "]" + partial_text(attr);
}

std::string to_text(const DistAttr& attr) {
  std::vector<std::string> dims;
  for (size_t d = 0; d < attr.dims.size(); ++d)
    dims.push_back(attr.dims[d].axes.empty() ? "*" : dim_text(attr, d));
  return "[" + join(dims, ", ") + "]" + partial_text(attr);
}

std::string to_text(const OpenSpec& spec) {
  std::vector<std::string> dims;
  for (size_t d = 0; d < spec.attr.dims.size(); ++d) {
    const bool is_open = d < spec.open.size() && spec.open[d];
    dims.push_back(dim_text(spec.attr, d) + (is_open ? "?" : ""));
    if (dims.back().empty()) dims.back() = "*";
  }
  return "[" + join(dims, ", ") + "]" + partial_text(spec.attr);
}

DistAttr parse_dist_attr(std::string_view given, const Shape& shape, MeshPtr mesh) {
  const std::string_view text = trim(given);
  const size_t close = text.find(']');
  if (!text.starts_with('[') || close == std::string_view::npos)
    malformed(text, "a placement has an entry for each dim in [ ]", kAttrForm);
  const std::string_view list = trim(text.substr(1, close - 1));
  const std::vector<std::string> items =
      list.empty() && shape.size() == 0 ? std::vector<std::string>{} : split_text(list, ',');
  if (std::ssize(items) != shape.size())
    malformed(text,
              "it has " + std::to_string(items.size()) + " entries and the tensor " +
                  std::to_string(shape.size()) + " dims",
              kAttrForm);
  std::vector<std::string> dims;
  for (int d = 0; d < shape.size(); ++d) {
    const std::string_view item = trim(items[static_cast<size_t>(d)]);
    if (!item.empty() && item != "*" && !item.starts_with('@'))
      malformed(text, "'" + std::string(item) + "' is neither whole, '*', nor divided by axes",
                kAttrForm);
    dims.push_back(std::to_string(shape[d]) + std::string(item == "*" ? "" : item));
  }
  const std::string typed = "f32[" + join(dims, ", ") + "]" + std::string(text.substr(close + 1));
  DistAttr attr = parse_dist_type(typed, std::move(mesh)).attr;
  check_divisions(attr, shape);
  return attr;
}

void check_divisions(const DistAttr& attr, const Shape& shape) {
  for (int d = 0; d < shape.size(); ++d) {
    const DimSharding& dim = attr.dims[static_cast<size_t>(d)];
    const std::string what = "dim " + std::to_string(d) + " cannot be divided in ";
    const std::string why = "the dim has " + std::to_string(shape[d]) + " elements";
    if (dim.windows.empty() && shape[d] % dim.chunks != 0)
      refuse_config(what + std::to_string(dim.chunks) + " chunks", "chunks are equal, and " + why,
                    "use a number of chunks that divides it");
    if (dim.windows.empty() && shape[d] / dim.chunks % dim.unit != 0)
      refuse_config(what + "units of " + std::to_string(dim.unit), "units are whole, and " + why,
                    "use a unit that divides it");
    for (size_t i = 1; i < dim.axes.size(); ++i)
      if (attr.mesh->axes()[dim.axes[i]] == kMicroBatchAxis)
        refuse_config("dim " + std::to_string(d) + " is divided by '" +
                          std::string(kMicroBatchAxis) + "' after another axis",
                      "the ranks divide each micro-batch",
                      "leave '" + std::string(kMicroBatchAxis) + "' out");
  }
}

DistType parse_dist_type(std::string_view text, MeshPtr mesh) {
  const std::string_view whole = trim(text);
  const size_t open = whole.find('['), close = whole.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    malformed(whole, "the extents in [] are missing", kTypeForm);
  DistType result{{parse_dtype(whole.substr(0, open)), {}}, {std::move(mesh), {}, {}}};
  const std::string_view list = whole.substr(open + 1, close - open - 1);
  if (!trim(list).empty())
    for (const std::string& item : split_text(list, ',')) read_dim(item, whole, result);
  read_partial(trim(whole.substr(close + 1)), whole, result.attr);
  return result;
}

DistAttr parse_placements(std::string_view text, MeshPtr mesh, int rank) {
  std::vector<Placement> placements(mesh->axis_count());
  std::set<int> placed;
  // A position counts the axes that the user gave to the mesh.
  const int first = mesh->find_axis(kMicroBatchAxis) ? kMicroBatchAxisIndex + 1 : 0;
  const std::vector<std::string> items = split_outside_brackets(text, ',');
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string_view item = items[i];
    const size_t colon = item.find(':');
    const bool is_named = colon != std::string_view::npos;
    const int axis =
        is_named ? mesh->axis(trim(item.substr(0, colon))) : first + static_cast<int>(i);
    if (axis >= mesh->axis_count())
      malformed(text, "there are more placements than the mesh has axes", kPlacementsForm);
    if (!placed.insert(axis).second)
      malformed(text, "it places axis '" + mesh->axes()[axis] + "' twice", kPlacementsForm);
    placements[axis] = read_placement(is_named ? trim(item.substr(colon + 1)) : item, text);
  }
  return from_placements(std::move(mesh), rank, placements);
}

OpenSpec parse_open_spec(std::string_view text, MeshPtr mesh, int rank) {
  std::string_view list = trim(text);
  if (!list.starts_with("P(") || !list.ends_with(")"))
    malformed(text, "a spec starts with P( and ends with )", kSpecForm);
  list = list.substr(2, list.size() - 3);
  if (!has_closed_brackets(list)) malformed(text, "its brackets do not match", kSpecForm);
  std::vector<std::string> spec;
  std::vector<int64_t> chunks;
  std::vector<bool> open;
  for (std::string item : split_outside_brackets(list, ',')) {
    std::erase_if(item, [](char letter) {
      return letter == '"' || letter == '\'' || letter == '(' || letter == ')' || letter == ' ';
    });
    const size_t times = item.find('*');
    chunks.push_back(times == std::string::npos ? 1 : read_chunk_count(item, times, text));
    if (times != std::string::npos) item.erase(0, times + 1);
    open.push_back(take_open(item));
    spec.push_back(item == "None" ? "" : item);
  }
  OpenSpec result{from_spec(std::move(mesh), rank, spec), std::move(open)};
  result.open.resize(static_cast<size_t>(rank), false);
  for (size_t d = 0; d < chunks.size(); ++d) {
    DimSharding& dim = result.attr.dims[d];
    if (chunks[d] > 1 && dim.axes.empty())
      malformed(text, "chunks are divided by an axis", kSpecForm);
    dim.chunks = chunks[d];
  }
  return result;
}

DistAttr parse_spec(std::string_view text, MeshPtr mesh, int rank) {
  OpenSpec spec = parse_open_spec(text, std::move(mesh), rank);
  if (std::find(spec.open.begin(), spec.open.end(), true) != spec.open.end())
    malformed(text, "an open dim, '?', can only be in the mark of a tensor",
              "None for a whole dim, or mark the tensor instead of the op");
  return std::move(spec.attr);
}

}  // namespace tessera
