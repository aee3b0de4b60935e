// dot_general. The text of the einsum is parsed here again, so that the plain kernel shares no code
// with the fast one.
#include "kernels/reference/reference.h"

namespace tessera::reference {
namespace {

// One loop index for each letter. Every operand looks up its own letters.
struct Loops {
  std::string letters;
  Shape extents;
};

void add_letters(Loops& loops, const std::string& letters, const Shape& shape) {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (loops.letters.find(letters[i]) != std::string::npos) continue;
    loops.letters += letters[i];
    loops.extents.push_back(shape[i]);
  }
}

int64_t index_of(const Loops& loops, const Dims& position, const std::string& letters,
                 const Shape& shape) {
  Dims index;
  for (char letter : letters) index.push_back(position[loops.letters.find(letter)]);
  return flat_index(shape, index);
}

}  // namespace

Run dot(const LocalCall& call) {
  if (call.kernel != "dot_general") return nullptr;
  return [call](const KernelBuffers& buffers) {
    const size_t comma = call.text.find(','), arrow = call.text.find("->");
    const std::string a = call.text.substr(0, comma),
                      b = call.text.substr(comma + 1, arrow - comma - 1),
                      out = call.text.substr(arrow + 2);
    Loops loops;
    add_letters(loops, a, call.inputs[0].shape);
    add_letters(loops, b, call.inputs[1].shape);
    std::vector<double> sums(element_count(call.outputs[0].shape), 0.0);
    for (int64_t i = 0; i < element_count(loops.extents); ++i) {
      const Dims position = position_of(loops.extents, i);
      const double x = read(call.inputs[0], buffers.inputs[0],
                            index_of(loops, position, a, call.inputs[0].shape));
      const double y = read(call.inputs[1], buffers.inputs[1],
                            index_of(loops, position, b, call.inputs[1].shape));
      sums[index_of(loops, position, out, call.outputs[0].shape)] += x * y;
    }
    for (size_t i = 0; i < sums.size(); ++i) write(call.outputs[0], buffers.outputs[0], i, sums[i]);
  };
}

}  // namespace tessera::reference
