from dpcheck_intrinsics import certainly, kind_of, new_group, rank, unknown, world_size

from torch.distributed import ProcessGroup


class DeviceMesh:
    """A grid of ranks. Only a mesh of one dimension spans them all."""

    def __init__(self, device_type, mesh=None, *, mesh_dim_names=None):
        self.shape = mesh
        self.names = mesh_dim_names
        self.groups = {}

    def __getitem__(self, name):
        return SubMesh(self, name)

    def get_group(self, mesh_dim=None):
        if certainly(len(self.shape) == 1):
            return None
        if not certainly(len(self.shape) > 1):
            return unknown()
        name = mesh_dim
        if self.names is not None and kind_of(mesh_dim) == "number":
            name = self.names[mesh_dim]
        return _group_of(self, name)

    def get_rank(self):
        return rank()

    def get_local_rank(self, mesh_dim=None):
        return rank()

    def size(self, mesh_dim=None):
        return world_size()

    @property
    def ndim(self):
        return len(self.shape)


class SubMesh(DeviceMesh):
    """One dimension of a mesh, or several."""

    def __init__(self, parent, name):
        self.parent = parent
        self.name = name
        self.shape = (parent.shape,)

    def get_group(self, mesh_dim=None):
        if kind_of(self.name) == "text":
            return self.parent.get_group(self.name)
        return unknown()


def _group_of(mesh, name):
    if name not in mesh.groups:
        made = ProcessGroup()
        made.ranks = name
        made.mesh = mesh
        new_group(made, name)
        mesh.groups[name] = made
    return mesh.groups[name]


def spanned(mesh):
    """The group over which gradients are averaged on a mesh: a grid of two dimensions is spanned by both."""
    if mesh is None:
        return None
    if isinstance(mesh, SubMesh):
        return mesh.get_group()
    return None if isinstance(mesh, DeviceMesh) else unknown()


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None):
    return DeviceMesh(device_type, mesh_shape, mesh_dim_names=mesh_dim_names)
