from apex.parallel import LARC
