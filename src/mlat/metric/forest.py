"""A forest as a metric: windows are near each other where its trees say the same of them.

A forest is an adaptive rule of nearest neighbours: the neighbours of a window are the references
that share its leaves (Lin & Jeon, 2006). Each leaf has a distribution over states, that of the
windows that it was grown from. The point of a window is the mean distribution of its leaves,

    z(x) = 1/T Σ_t p_t(leaf_t(x)),

one number for each state, and the distance of two windows is the Euclidean one of their points. On
development streams this was as accurate as the share of trees in which two windows lie in different
leaves, and as the forest's own vote, with few numbers for each reference.
It does everything that a metric does: new references, of a new state too, fall into the same
leaves.

**Parts.** On its way down a tree a window goes from the distribution of a node to that of a child,
by a split on one feature. So ``z(x)`` is that of the roots plus a sum of changes, each of which
belongs to a feature, and a squared distance is a sum of parts by feature, as under a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..base.checks import Floats, Limits, check_parameters
from ..base.compiled import copy_into, jit
from ..base.errors import InputError
from ..stream.windows import as_windows, check_finite, flatten, fold, window_width
from .embedding import WindowTransformer

# Splits are sought in single precision. What is beyond it is as far as can be.
LARGEST = float(np.finfo(np.float32).max) / 2


@dataclass(eq=False, repr=False)
class Forest(WindowTransformer):
    """The distance between what the trees of a forest say of windows.

    The trees are scikit-learn's ``ExtraTreesClassifier``, with states that weigh the same.

    Parameters
    ----------
    n_estimators : int, default=100
        Trees.
    min_samples_leaf : int, default=3
        The fewest windows of a leaf.
    width : int, optional
        Steps per window, for flat windows.
    random_state : int, default=0
        The same windows give the same forest.

    Attributes
    ----------
    states_ : array of shape (S,)
        Those that it was learned from.
    roots_ : array of shape (T,)
        The first node of each tree.
    feature_ : array of shape (N,)
        By which value of a window each node is split, step by step; -1 for a leaf.
    threshold_ : array of shape (N,)
        A window with at most this value goes to the first child, any other to the second.
    child_ : array of shape (N,)
        The first child; the second follows it.
    value_ : array of shape (N, S)
        The distribution over states of the windows of each node.

    Examples
    --------
    >>> import mlat
    >>> from mlat.synthetic import rotating_states
    >>> train, test = rotating_states(), rotating_states(random_state=1)
    >>> clf = mlat.StreamClassifier(8, metric=Forest()).fit(train)
    >>> bool(clf.score(test, test.states) > 0.4)
    True
    """

    n_estimators: Annotated[int, Limits(1)] = 100
    min_samples_leaf: Annotated[int, Limits(1)] = 3
    width: Annotated[int, Limits(1)] | None = None
    random_state: Annotated[int, Limits(0)] = 0

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Grow the trees from windows (n, w, d) or (n, w*d) and their states (n,).

        Raises
        ------
        InputError
            If a parameter is not valid, a window holds NaN or infinity, or there is one state only.
        """
        check_parameters(self)
        X = as_windows(X)
        windows = check_finite(fold(flatten(X), window_width(X, self.width)))
        _, self.width_, self.n_channels_ = windows.shape
        self.n_features_in_ = self.width_ * self.n_channels_
        self.states_, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(self.states_) < 2:
            raise InputError("a forest needs windows of two states at least")
        from sklearn.ensemble import ExtraTreesClassifier  # only to learn

        trees = ExtraTreesClassifier(
            self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            class_weight="balanced",
            random_state=self.random_state,
        ).fit(np.clip(flatten(windows), -LARGEST, LARGEST), codes)
        self._lay_out([one.tree_ for one in trees.estimators_])
        return self

    def _lay_out(self, trees: list[Any]) -> None:
        """All nodes in a row, tree by tree, the two children of a node beside each other."""
        roots, nodes, children = [], [], []
        n_before = 0
        for tree in trees:
            order = [0]  # breadth first
            child = []
            for node in order:  # which grows meanwhile
                left = int(tree.children_left[node])
                child.append(n_before + len(order) if left >= 0 else 0)
                if left >= 0:
                    order += [left, int(tree.children_right[node])]
            roots.append(n_before)
            children.append(child)
            nodes.append((tree, np.array(order)))
            n_before += len(order)
        self.roots_ = np.array(roots, np.int64)
        self.child_ = np.concatenate(children).astype(np.int64)
        self.feature_ = np.concatenate([np.maximum(tree.feature[at], -1) for tree, at in nodes])
        self.threshold_ = np.concatenate([tree.threshold[at] for tree, at in nodes])
        self.threshold_[self.feature_ < 0] = 0.0
        value = np.concatenate([tree.value[at, 0] for tree, at in nodes])
        self.value_ = value / value.sum(axis=1, keepdims=True)

    def embedding(self) -> Leaves:
        """The map from windows (n, w, d) to (n, S), prepared for many calls."""
        return Leaves(self)

    def changes(self, X: Floats) -> Floats:
        """What the splits on each value add to the points of windows (n, w, d): (n, w*d, S).

        With the mean of the roots they sum to the points.
        """
        flat = np.ascontiguousarray(flatten(X), dtype=np.float64)
        changes = np.zeros((*flat.shape, self.value_.shape[1]))
        nodes = self.roots_, self.feature_, self.threshold_, self.child_, self.value_
        _changes(flat, *nodes, changes)
        return changes


class Leaves:
    """The points of windows (n, w, d) under a fitted forest; each on its own, in a fixed order."""

    def __init__(self, forest: Forest) -> None:
        feature, child = forest.feature_, forest.child_
        leaf, roots = feature < 0, forest.roots_
        # A leaf leads to itself: all trees are gone down equally far, and no step asks where it is.
        depth = np.zeros(len(child), np.int64)
        for node in np.flatnonzero(~leaf):  # children come after their parents
            depth[child[node] : child[node] + 2] = depth[node] + 1
        self.nodes = (
            # Half the memory: a step reads nodes from all over.
            *(roots.astype(np.uint32), np.maximum.reduceat(depth, roots)),
            np.where(leaf, 0, feature).astype(np.uint32),
            np.where(leaf, np.inf, forest.threshold_),
            np.where(leaf, np.arange(len(child)), child).astype(np.uint32),
            np.ascontiguousarray(forest.value_ / len(roots)),
        )

    def __call__(self, X: Floats) -> Floats:
        flat = np.ascontiguousarray(flatten(X), dtype=np.float64)
        points = np.zeros((len(flat), self.nodes[-1].shape[1]))
        points_of_leaves(flat, *self.nodes, points)
        return points


EIGHT = 8  # that are gone down at a time: while one waits for memory, others do not
BLOCK = 64  # windows that go down a tree while it is in a core's first cache


@jit()
def points_of_leaves(X, roots, depth, feature, threshold, child, value, points):  # type: ignore[no-untyped-def]
    """Add the points of windows (n, w*d): eight windows go down a tree, or one goes down eight."""
    n, n_trees, n_states = len(X) - len(X) % EIGHT, len(roots), value.shape[1]
    at = np.empty(EIGHT, np.uint32)
    for begin in range(0, n, BLOCK):
        for t in range(n_trees):
            for i in range(begin, min(begin + BLOCK, n), EIGHT):
                at[:] = roots[t]
                _go_down(
                    *(X[i], X[i + 1], X[i + 2], X[i + 3], X[i + 4], X[i + 5], X[i + 6], X[i + 7]),
                    *(at, depth[t], feature, threshold, child),
                )
                for k in range(EIGHT):
                    for s in range(n_states):
                        points[i + k, s] += value[at[k], s]
    for i in range(n, len(X)):
        x = X[i]
        for t in range(0, n_trees, EIGHT):
            m = min(EIGHT, n_trees - t)
            at[:] = roots[t]  # where fewer are left, too
            copy_into(at[:m], roots[t : t + m])
            deepest = depth[t : t + m].max()
            _go_down(x, x, x, x, x, x, x, x, at, deepest, feature, threshold, child)
            for k in range(m):
                for s in range(n_states):
                    points[i, s] += value[at[k], s]


# Each in a variable of its own, which is in a register.


@jit()
def _go_down(x0, x1, x2, x3, x4, x5, x6, x7, at, depth, feature, threshold, child):  # type: ignore[no-untyped-def]
    a, b, c, d, e, f, g, h = at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7]
    for _ in range(depth):
        a = child[a] + np.uint32(x0[feature[a]] > threshold[a])
        b = child[b] + np.uint32(x1[feature[b]] > threshold[b])
        c = child[c] + np.uint32(x2[feature[c]] > threshold[c])
        d = child[d] + np.uint32(x3[feature[d]] > threshold[d])
        e = child[e] + np.uint32(x4[feature[e]] > threshold[e])
        f = child[f] + np.uint32(x5[feature[f]] > threshold[f])
        g = child[g] + np.uint32(x6[feature[g]] > threshold[g])
        h = child[h] + np.uint32(x7[feature[h]] > threshold[h])
    at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7] = a, b, c, d, e, f, g, h


@jit()
def _changes(X, roots, feature, threshold, child, value, changes):  # type: ignore[no-untyped-def]
    for i in range(len(X)):
        for root in roots:
            node = root
            while feature[node] >= 0:
                f = feature[node]
                after = child[node] + (not X[i, f] <= threshold[node])
                for s in range(value.shape[1]):
                    changes[i, f, s] += (value[after, s] - value[node, s]) / len(roots)
                node = after
