from presage.surrogates.neural_basis import NeuralBasis
from presage.testing.surrogates import SurrogateSuite


class TestNeuralBasis(SurrogateSuite):
    def make(self):
        return NeuralBasis()
