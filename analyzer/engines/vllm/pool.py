from __future__ import annotations
from analyzer.facts.view import View
def pool_estimate(view: View):
    return None
