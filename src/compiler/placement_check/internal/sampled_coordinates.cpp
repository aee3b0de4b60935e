#include "compiler/placement_check/internal/sampled_coordinates.h"

#include <set>

namespace tessera {
namespace {

/// Every coordinate of a mesh of at most this size is taken.
constexpr int kSmallMesh = 32;
/// The size of the sample of a larger mesh, and the largest number of its corners.
constexpr int kSampled = 16;

}  // namespace

std::vector<Coordinate> sampled_coordinates(const Mesh& mesh) {
  std::set<int64_t> positions;
  const bool is_small = mesh.size() <= kSmallMesh;
  // An odd stride does not stay at one index of an axis of even size.
  const int stride = is_small ? 1 : ((mesh.size() + kSampled - 1) / kSampled) | 1;
  for (int i = 0; i < mesh.size(); i += stride) positions.insert(i);
  int64_t corners = 1;
  for (int axis = 0; axis < mesh.axis_count() && corners < kSampled; ++axis) corners *= 2;
  for (int64_t corner = 0; !is_small && corner < corners; ++corner) {
    int64_t position = 0;
    for (int axis = 0; axis < mesh.axis_count(); ++axis)
      position =
          position * mesh.shape()[axis] + ((corner >> axis) % 2 ? mesh.shape()[axis] - 1 : 0);
    positions.insert(position);
  }
  std::vector<Coordinate> coordinates;
  if (!is_small && mesh.is_weighted())
    coordinates = {mesh.largest_shard_coordinate(), mesh.smallest_shard_coordinate()};
  for (int64_t position : positions)
    coordinates.push_back(mesh.coordinate_at(static_cast<int>(position)));
  return coordinates;
}

}  // namespace tessera
